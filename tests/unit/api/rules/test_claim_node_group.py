"""What a group of NodeClaims may say: what it shares with other groups, and what the API server takes in a claim."""

from __future__ import annotations

from typing import Any

import pytest

from support.worlds.providers.node_claims import claim_group
from trellis.api.kinds.claim_node_group import CLAIM_GROUP_LABEL
from trellis.api.registry import CLAIM_NODE_GROUP, FILE_KINDS, find_kind
from trellis.api.schema.crds import build_crds
from trellis.api.validation import validate
from trellis.core.buffers.translation_facts import NODE_CLASS_LABELS


def list_problem_texts(document: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in validate(CLAIM_NODE_GROUP, document)]


def requiring(operator: str, *values: str, key: str = "example.com/size", **more: Any) -> dict[str, Any]:
    requirement = {"key": key, "operator": operator, **({"values": list(values)} if values else {}), **more}
    return claim_group(requirements=[requirement])


def referring(**fields: str) -> dict[str, Any]:
    return claim_group(nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default", **fields})


FULL = claim_group(
    resources={"cpu": "3.92", "memory": "14Gi", "pods": 58, "example.com/gpu": "1"},
    labels={"example.com/spot": "", "karpenter.sh/capacity-type": "spot"},
    taints=[{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}],
    startupTaints=[{"key": "dedicated", "effect": "NoExecute"}, {"key": "agent", "effect": "NoSchedule"}],
    requirements=[
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["a.b", "c.d"], "minValues": 2},
        {"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["reserved"]},
        {"key": "example.com/disk", "operator": "Exists"},
        {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gte", "values": ["5"]},
    ],
    minSize=2,
    price=0.21,
    priority=-5,
)


@pytest.mark.parametrize(
    "document", [claim_group(), FULL, claim_group(requirements=None)], ids=["usual", "fullest", "any-machine"]
)
def test_a_group_that_is_right_has_no_problem(document: dict[str, Any]) -> None:
    assert list_problem_texts(document) == []


def test_a_group_is_a_document_of_ours_and_no_crd() -> None:
    assert find_kind("nodes.trellis.x-k8s.io/v1alpha1", "ClaimNodeGroup") is CLAIM_NODE_GROUP
    assert CLAIM_NODE_GROUP in FILE_KINDS
    assert not any(crd["spec"]["names"]["kind"] == "ClaimNodeGroup" for crd in build_crds())


def test_buffers_find_the_nodes_of_a_group_by_the_label_that_it_gives_them() -> None:
    assert NODE_CLASS_LABELS["ClaimNodeGroup"] == CLAIM_GROUP_LABEL


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (claim_group(maxSize=None), "spec.maxSize: Required value: maxSize must be given"),
        (claim_group(minSize=11), "spec.minSize: Invalid value: 11: must not be above maxSize, which is 10"),
        (claim_group(resources={"cpu": "4"}), "spec.resources[memory]: Required value: memory must be given"),
        (claim_group(nodeClassRef=None), "spec.nodeClassRef: Required value: nodeClassRef must be given"),
        (
            claim_group(bootTime="90s"),
            'spec.bootTime: Unknown field: there is no field "bootTime" here',
        ),
        (
            referring(group="karpenter.k8s.aws/v1"),
            'spec.nodeClassRef.group: Invalid value: "karpenter.k8s.aws/v1": must be without a version: '
            "karpenter.k8s.aws",
        ),
        (
            claim_group(labels={CLAIM_GROUP_LABEL: "other"}),
            "spec.labels[trellis.x-k8s.io/node-group]: Forbidden: is set on each node and must not be given",
        ),
        (
            claim_group(labels={"karpenter.sh/nodepool": "general"}),
            "spec.labels[karpenter.sh/nodepool]: Forbidden: belongs to Karpenter: the domain karpenter.sh must not be "
            "used",
        ),
        (
            claim_group(taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]),
            "spec.taints[0].key: Forbidden: belongs to Karpenter: the domain karpenter.sh must not be used",
        ),
        (
            claim_group(
                taints=[{"key": "a", "effect": "NoSchedule"}], startupTaints=[{"key": "a", "effect": "NoSchedule"}]
            ),
            'spec.startupTaints[0]: Duplicate value: "a": a with effect NoSchedule is already one of taints, which '
            "stay",
        ),
        (
            claim_group(startupTaints=[{"key": "a", "effect": "NoSchedule"}] * 2),
            'spec.startupTaints[1]: Duplicate value: "a": there is already a taint a with effect NoSchedule',
        ),
        (
            requiring("In", "x", key="karpenter.sh/nodepool"),
            "spec.requirements[0].key: Forbidden: belongs to Karpenter: the domain karpenter.sh must not be used",
        ),
        (
            requiring("In", "x", key="kubernetes.io/hostname"),
            "spec.requirements[0].key: Forbidden: is set on each node and must not be given",
        ),
        (requiring("In"), "spec.requirements[0].values: Required value: must be given with operator In"),
        (
            requiring("Exists", "x"),
            "spec.requirements[0].values: Forbidden: must not be given with operator Exists",
        ),
        (
            requiring("Gt", "many"),
            'spec.requirements[0].values: Invalid value: ["many"]: must be one whole number with operator Gt',
        ),
        (
            requiring("In", "x", minValues=2),
            "spec.requirements[0].minValues: Invalid value: 2: must not be above the number of values, which is 1",
        ),
        (
            requiring("Near", "x"),
            'spec.requirements[0].operator: Unsupported value: "Near": supported values: "In", "NotIn", "Exists", '
            '"DoesNotExist", "Gt", "Lt", "Gte", "Lte"',
        ),
        (
            claim_group("a" * 56),
            f'metadata.name: Invalid value: "{"a" * 56}": must have at most 55 characters, because it is the '
            "prefix of the names of nodes",
        ),
    ],
)
def test_each_fault_has_a_field_a_value_and_a_rule(document: dict[str, Any], expected: str) -> None:
    assert expected in list_problem_texts(document)
