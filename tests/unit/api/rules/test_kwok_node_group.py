"""What a group of kwok nodes may say: every fault has one line with its field, its value and the rule."""

from __future__ import annotations

from typing import Any

import pytest

from support.worlds.providers.kwok_nodes import failing, group
from trellis.api.kinds.kwok_node_group import GROUP_LABEL
from trellis.api.registry import FILE_KINDS, KWOK_NODE_GROUP, find_kind
from trellis.api.schema.crds import build_crds
from trellis.api.validation import validate
from trellis.core.buffers.translation_facts import NODE_CLASS_LABELS
from trellis.core.lint.check import check
from trellis.core.lint.manifests import ManifestSource


def list_problem_texts(document: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in validate(KWOK_NODE_GROUP, document)]


def resources(**more: Any) -> dict[str, Any]:
    given = {"cpu": "4", "memory": "16Gi", **more}
    return group(resources={name.replace("_", "-"): amount for name, amount in given.items() if amount is not None})


FULL = group(
    resources={
        "cpu": "3.92",
        "memory": "14Gi",
        "pods": 58,
        "ephemeral-storage": "80Gi",
        "hugepages-2Mi": "1Gi",
        "example.com/gpu": "1",
    },
    labels={"topology.kubernetes.io/zone": "a", "example.com/spot": ""},
    devices=[{"deviceClass": "gpu.example.com", "count": 8}, {"deviceClass": "mig", "driver": "a.example", "count": 1}],
    taints=[
        {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
        {"key": "dedicated", "effect": "NoExecute"},
    ],
    minSize=2,
    price=0.21,
    bootTime="1m30s",
    priority=-5,
    fails={"how": "OtherShape", "after": 3, "resources": {"cpu": "1", "memory": "1Gi"}},
)


@pytest.mark.parametrize("document", [group(), FULL], ids=["smallest", "fullest"])
def test_a_group_that_is_right_has_no_problem(document: dict[str, Any]) -> None:
    assert list_problem_texts(document) == []


def test_a_group_is_a_document_of_ours_and_no_crd() -> None:
    assert find_kind("nodes.trellis.x-k8s.io/v1alpha1", "KwokNodeGroup") is KWOK_NODE_GROUP
    assert KWOK_NODE_GROUP in FILE_KINDS
    assert not any(crd["spec"]["names"]["kind"] == "KwokNodeGroup" for crd in build_crds())


def test_buffers_find_the_nodes_of_a_group_by_the_label_that_it_gives_them() -> None:
    assert NODE_CLASS_LABELS["KwokNodeGroup"] == GROUP_LABEL


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (group(maxSize=None), "spec.maxSize: Required value: maxSize must be given"),
        (group(maxSize=-1), "spec.maxSize: Invalid value: -1: must be greater than or equal to 0"),
        (group(maxSize="ten"), 'spec.maxSize: Invalid value: "ten": must be of type integer, not string'),
        (group(minSize=11), "spec.minSize: Invalid value: 11: must not be above maxSize, which is 10"),
        (
            group(maxsize=3),
            'spec.maxsize: Unknown field: there is no field "maxsize" here (did you mean "maxSize"?)',
        ),
        (group(resources=None), "spec.resources: Required value: resources must be given"),
        (resources(cpu=None), "spec.resources[cpu]: Required value: cpu must be given"),
        (resources(memory=0), "spec.resources[memory]: Invalid value: 0: must be above zero"),
        (
            resources(cpu="-4"),
            'spec.resources[cpu]: Invalid value: "-4": must be a quantity such as 500m or 1.5Gi, not negative',
        ),
        (resources(pods="1.5"), 'spec.resources[pods]: Invalid value: "1.5": must be a whole number'),
        (
            resources(gpu="1"),
            'spec.resources[gpu]: Invalid value: "gpu": must be one of cpu, memory, pods, ephemeral-storage, '
            "hugepages-<size>, or have a domain, as in example.com/gpu",
        ),
        (
            group(labels={GROUP_LABEL: "other"}),
            "spec.labels[kwok-nodegroup]: Forbidden: is set on each node by Trellis and must not be given",
        ),
        (
            group(labels={"-bad": "x"}),
            "spec.labels[-bad]: Invalid value: \"-bad\": the name must consist of letters, digits, '-', '_' and "
            "'.', and start and end with a letter or digit",
        ),
        (
            group(taints=[{"key": "a", "effect": "NoSchedule"}] * 2),
            'spec.taints[1]: Duplicate value: "a": there is already a taint a with effect NoSchedule',
        ),
        (
            group(taints=[{"key": "a", "effect": "Never"}]),
            'spec.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", '
            '"NoExecute"',
        ),
        (
            group(taints=[{"key": "trellis.x-k8s.io/starting", "effect": "NoSchedule"}]),
            "spec.taints[0].key: Forbidden: is set by Trellis while a node starts and must not be given",
        ),
        (
            group(devices=[{"deviceClass": "a", "count": 1}] * 2),
            'spec.devices[1].deviceClass: Duplicate value: "a": the class is already declared',
        ),
        (
            group(devices=[{"deviceClass": "a", "count": 0}]),
            "spec.devices[0].count: Invalid value: 0: must be greater than or equal to 1",
        ),
        (
            group(devices=[{"deviceClass": "a", "driver": "A_B", "count": 1}]),
            "spec.devices[0].driver: Invalid value: \"A_B\": must consist of a-z, 0-9, '-' and '.', and start and end, "
            "at every dot, with a letter or digit",
        ),
        (
            group(bootTime="soon"),
            'spec.bootTime: Invalid value: "soon": must be a span such as 90s, 10m, 36h or 14d',
        ),
        (group(bootTime="25h"), 'spec.bootTime: Invalid value: "25h": must be at most 1d'),
        (group(price=-1), "spec.price: Invalid value: -1: must be greater than or equal to 0"),
        (
            failing("Explode"),
            'spec.fails.how: Unsupported value: "Explode": supported values: "RefuseOrders", "LoseOrders", "Hang", '
            '"NeverComeUp", "FailToStart", "OtherShape"',
        ),
        (failing("OtherShape"), "spec.fails.resources: Required value: must be given with how: OtherShape"),
        (
            failing("OtherShape", resources={"cpu": "1"}),
            "spec.fails.resources[memory]: Required value: memory must be given",
        ),
        (
            failing("Hang", resources={"cpu": "1"}),
            "spec.fails.resources: Forbidden: is allowed only with how: OtherShape",
        ),
        (
            group("a" * 56),
            f'metadata.name: Invalid value: "{"a" * 56}": must have at most 55 characters, because it is the '
            "prefix of the names of nodes",
        ),
        (
            group("a.b"),
            "metadata.name: Invalid value: \"a.b\": must consist of a-z, 0-9 and '-', and start and end with a letter "
            "or digit",
        ),
        (
            {**group(), "metadata": {"generateName": "x-"}},
            "metadata.name: Required value: name must be given: it is the prefix of the names of nodes",
        ),
        ({**group(), "metadata": {}}, "metadata.name: Required value: name or generateName is required"),
    ],
)
def test_each_problem_is_reported_once_with_its_field_and_rule(document: dict[str, Any], expected: str) -> None:
    assert list_problem_texts(document) == [expected]


def test_trellis_check_validates_node_groups() -> None:
    text = b"apiVersion: nodes.trellis.x-k8s.io/v1alpha1\nkind: KwokNodeGroups\nmetadata: {name: a}\n"
    [finding] = check([ManifestSource("groups.yaml", text)]).findings
    assert (finding.line, finding.message) == (
        2,
        'there is no kind "KwokNodeGroups" in nodes.trellis.x-k8s.io (did you mean "KwokNodeGroup"?)',
    )
