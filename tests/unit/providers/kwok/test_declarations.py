"""Which groups a ConfigMap declares: one document that is wrong never costs another group."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import virtual_time
from support.worlds.providers.kwok_nodes import NOW, KwokWorld, config_map, failing, group
from trellis.api.kube.coordination import ConfigMap
from trellis.api.registry import KWOK_NODE_GROUP
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.nodes import NodeGroup
from trellis.core.nodes.node_groups import GroupDevices
from trellis.providers.declared import declarations
from trellis.providers.declared.declarations import GROUP_REFUSED, NO_GROUPS, Declarations
from trellis.providers.kwok.declarations import DeclaredGroup, build_kwok_group

WHERE = "kube-system/groups"


def read_declarations(config: ConfigMap | None, where: str) -> Declarations[DeclaredGroup]:
    return declarations.read_declarations(KWOK_NODE_GROUP, config, where, build_kwok_group)


def only(found: Declarations[DeclaredGroup]) -> NodeGroup:
    assert found.problems == ()
    [declared] = found.groups.values()
    return declared.group


def test_a_group_describes_a_new_node() -> None:
    written = group(
        "spot",
        resources={"cpu": "4", "memory": "16Gi", "example.com/gpu": 1},
        labels={"zone": "a"},
        taints=[{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}],
        minSize=2,
        price=0.5,
        bootTime="2m",
        priority=7,
    )
    result = only(read_declarations(config_map(written), WHERE))
    node = result.template
    assert (result.name, result.min_size, result.max_size, result.price) == ("spot", 2, 10, 0.5)
    assert (result.boot_seconds, result.priority) == (120.0, 7)
    assert dict(node.status.allocatable) == {"pods": "110", "cpu": "4", "memory": "16Gi", "example.com/gpu": "1"}
    assert node.status.capacity == node.status.allocatable
    assert dict(node.metadata.labels) == {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "zone": "a",
        "kwok-nodegroup": "spot",
        "kwok.x-k8s.io/node": "fake",
    }
    assert [(taint.key, taint.value, taint.effect) for taint in node.spec.taints] == [
        ("dedicated", "batch", "NoSchedule")
    ]


def test_devices_are_those_of_their_driver_and_no_resource_of_the_node() -> None:
    devices = [
        {"deviceClass": "gpu.example.com", "count": 8},
        {"deviceClass": "mig", "driver": "a.example", "count": 1},
    ]
    result = only(read_declarations(config_map(group(devices=devices)), WHERE))
    assert result.devices == (
        GroupDevices("gpu.example.com", "gpu.example.com", 8),
        GroupDevices("mig", "a.example", 1),
    )
    assert result.template == only(read_declarations(config_map(group()), WHERE)).template


def test_absent_fields_have_defaults() -> None:
    result = only(read_declarations(config_map(group(bootTime=None)), WHERE))
    assert (result.min_size, result.boot_seconds, result.priority) == (0, 60.0, 0)
    assert result.price == EXAMPLE_PRICES.cost_per_hour(4, 16 * 2**30)


def test_documents_may_be_yaml_or_json_in_one_file_or_several() -> None:
    result = read_declarations(
        config_map(group("a"), group("b"), **{"more.json": msgspec.json.encode(group("c")).decode()}), WHERE
    )
    assert (sorted(result.groups), result.problems) == (["a", "b", "c"], ())


@pytest.mark.parametrize(
    "spoiled", [group("bad", maxSize=None), failing("Explode"), {"kind": "Pod", "apiVersion": "v1"}]
)
def test_a_refused_document_affects_only_its_own_group(spoiled: dict[str, object]) -> None:
    result = read_declarations(config_map(group("a"), spoiled, group("b")), WHERE)
    assert sorted(result.groups) == ["a", "b"]
    [problem] = result.problems
    assert problem.reason.reason is GROUP_REFUSED


def test_a_refusal_has_file_line_field_and_rule() -> None:
    result = read_declarations(config_map(group("bad", minSize=11, price=-1)), WHERE)
    [problem] = result.problems
    assert problem.group == "bad"
    assert str(problem.reason) == (
        "groups.yaml:12:3 spec.price: Invalid value: -1: must be greater than or equal to 0; "
        "groups.yaml:11:3 spec.minSize: Invalid value: 11: must not be above maxSize, which is 10"
    )


def test_text_that_is_no_document_is_reported_and_the_rest_is_read() -> None:
    result = read_declarations(config_map(group("a"), **{"broken.yaml": "spec: {unclosed", "note.txt": "hello"}), WHERE)
    assert sorted(result.groups) == ["a"]
    assert [str(problem.reason).partition(" ")[0] for problem in result.problems] == ["broken.yaml:1:7", "note.txt:1:1"]


def test_of_two_groups_with_one_name_the_first_counts() -> None:
    result = read_declarations(config_map(group("a", maxSize=1), group("a", maxSize=2)), WHERE)
    assert result.groups["a"].group.max_size == 1
    [problem] = result.problems
    assert 'metadata.name: Duplicate value: "a": the name is already used by another node group' in str(problem.reason)


def test_an_object_of_another_kind_is_refused() -> None:
    other = {"apiVersion": "autoscaling.x-k8s.io/v1alpha1", "kind": "Buffer", "metadata": {"name": "x"}}
    [problem] = read_declarations(config_map(other), WHERE).problems
    assert 'kind: Invalid value: "Buffer": must be KwokNodeGroup of nodes.trellis.x-k8s.io/v1alpha1' in str(
        problem.reason
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "the ConfigMap kube-system/groups does not exist"),
        (config_map(), "the ConfigMap kube-system/groups declares no node group"),
    ],
)
def test_a_missing_declaration_is_reported(config: ConfigMap | None, message: str) -> None:
    [problem] = read_declarations(config, WHERE).problems
    assert (problem.reason.reason, str(problem.reason)) == (NO_GROUPS, message)


@given(st.text(max_size=60))
def test_no_text_prevents_other_groups_from_being_read(text: str) -> None:
    assert "a" in read_declarations(config_map(group("a"), **{"x.yaml": text}), WHERE).groups


def test_groups_are_read_outside_the_event_loop_and_once_for_concurrent_callers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[int] = []

    real = declarations.read_declarations

    def read(*arguments: Any) -> Declarations[Any]:
        threads.append(threading.get_ident())
        return real(*arguments)

    monkeypatch.setattr(declarations, "read_declarations", read)
    world = KwokWorld(group("a"), group("b"))

    async def main() -> None:
        orders = await asyncio.gather(*(world.provider.order(name, 1, NOW) for name in ("a", "b")))
        assert [order.instances for order in orders] == [("a-1",), ("b-1",)]
        assert len(threads) == 1
        world.config = config_map(group("a"), group("b"), group("c"))
        reported = await world.provider.groups(NOW)
        assert [state.group.name for state in reported.states] == ["a", "b", "c"]
        await world.provider.tend(NOW)

    virtual_time.run(main())
    assert len(threads) == 2
    assert threading.get_ident() not in threads
