"""What is written of news and questions of the node autoscaler is read as it was, to the order of everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders.device_claims import a_claim, a_claim_template, a_slice, collect_devices
from support.worlds.nodes import START, a_buffer, a_daemon_set, a_group, a_node, a_pod
from support.worlds.provisioning import a_pod_group, a_request, a_template
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.policies import PodDisruptionBudget
from trellis.api.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.base.json_lines import decode_payload, encode_payload
from trellis.base.reasons import DetailedReason
from trellis.controllers.nodes.recording import create_planner
from trellis.core.fit import Storage
from trellis.core.fit.constraints.device_claims import UNKNOWN_DEVICES
from trellis.core.nodes import (
    GroupState,
    Instance,
    InstanceState,
    ScaleDownMemory,
    ScaleUpMemory,
)
from trellis.core.nodes.autoscaler_pass import AutoscalerMemory, AutoscalerSettings, NodePlanner, PassInput, PassPlans
from trellis.core.nodes.provisioning.lifecycle import RequestMemory, RequestPhase
from trellis.core.nodes.scale_down.decisions import NODE_IN_USE, ScaleDownPlan
from trellis.core.nodes.scale_down.remembered_state import NodeRemoval, UnremovableNode
from trellis.core.nodes.scale_up.decisions import ScaleUpPlan
from trellis.core.nodes.scale_up.remembered_state import GroupBackoff, UnconfirmedOrder
from trellis.core.nodes.state.recommended_sizes import RecommendedSize
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges
from trellis.core.recording.nodes.changes import ChangesLine, ChangesReader, ChangesWriter
from trellis.core.recording.nodes.passes import BoostsLine, PassInputReader, PassInputWriter, PassLine, SizesLine
from trellis.runtime.recorder import NO_RECORDER

GROUPS = {name: a_group(name) for name in ("large", "small")}
INSTANCES = st.lists(
    st.builds(
        Instance,
        id=st.sampled_from([f"i{number}" for number in range(6)]),
        state=st.sampled_from(InstanceState),
        since=st.sampled_from([START, START + 0.1]),
        error=st.sampled_from([None, DetailedReason(NODE_IN_USE, "no machine")]),
    ),
    unique_by=lambda instance: instance.id,
).map(tuple)
STATES = st.lists(
    st.builds(GroupState, group=st.sampled_from([*GROUPS.values()]), target=st.integers(0, 3), instances=INSTANCES),
    unique_by=lambda group: group.group.name,
)
MEMORIES = st.sampled_from(
    [
        AutoscalerMemory(),
        AutoscalerMemory(
            ScaleUpMemory(missed_pods=frozenset({"a", "b"}), chunk_nodes={"u": ("n1", "")}),
            ScaleDownMemory({"n1": START}, last_added_at=START),
        ),
        AutoscalerMemory(
            ScaleUpMemory(
                requests={"r": RequestMemory(RequestPhase.WAITING, START, DetailedReason(NODE_IN_USE, "full"), 60.0)}
            )
        ),
        AutoscalerMemory(
            ScaleUpMemory({"small": GroupBackoff(START, 300.0, "refused")}, {"large": UnconfirmedOrder(3, START)}),
            ScaleDownMemory(
                unremovable={"n2": UnremovableNode(DetailedReason(NODE_IN_USE), START + 300.0)},
                removals={"n1": NodeRemoval("n1", "u1", "small", "i1", START, START, frozenset({"p"}))},
                last_added_at=START,
                last_failed_at=START + 1.0,
            ),
        ),
    ]
)
BUDGETS = [PodDisruptionBudget(ObjectMeta(name=name, namespace="shop")) for name in "abcd"]


def plans_that_leave(memory: AutoscalerMemory) -> PassPlans:
    return PassPlans(ScaleUpPlan((), (), (), (), {}, memory.up), ScaleDownPlan((), (), memory.down), {})


@given(st.lists(st.tuples(STATES, st.permutations(BUDGETS), st.integers(0, 4), MEMORIES, MEMORIES), max_size=3))
def test_pass_inputs_are_read_as_they_were_written(passes: list[tuple[Any, ...]]) -> None:
    writing, reading = PassInputWriter(), PassInputReader()
    for number, (states, budgets, count, memory, left) in enumerate(passes):
        asked = PassInput(states, budgets[:count], memory, START + number)
        again = reading.read_input(decode_payload(encode_payload(writing.build_line(asked)), PassLine))
        assert list(again.groups) == states
        assert list(again.budgets) == budgets[:count]
        assert (again.memory, again.now) == (memory, asked.now)
        for one in (writing, reading):
            one.record_plans(plans_that_leave(left))


def test_only_changed_instances_and_changed_memory_are_written() -> None:
    writing = PassInputWriter()
    there = [Instance(f"i{number}", InstanceState.RUNNING, START) for number in range(100)]
    memory = AutoscalerMemory(
        ScaleUpMemory(chunk_nodes={"u": ("n1",)}), ScaleDownMemory({f"n{number}": START for number in range(100)})
    )
    writing.build_line(PassInput([GroupState(GROUPS["small"], 100, tuple(there))], (), AutoscalerMemory(), START))
    writing.record_plans(plans_that_leave(memory))
    there[7] = Instance("i7", InstanceState.LEAVING, START)
    refused = replace(memory.up, backoffs={"small": GroupBackoff(START, 300.0)})
    now = PassInput([GroupState(GROUPS["small"], 99, tuple(there))], (), AutoscalerMemory(refused, memory.down), START)
    line = msgspec.json.decode(encode_payload(writing.build_line(now)))
    (group,) = line["groups"]
    assert (set(group), [instance["id"] for instance in group["put"]]) == ({"name", "target", "put"}, ["i7"])
    assert line["memory"] == {"up": {"backoffs": {"small": {"failed_at": START, "seconds": 300.0, "reason": ""}}}}


OBJECTS = {
    "nodes": [("", name) for name in ("n1", "n2")],
    "pods": [("default", name) for name in ("p1", "p2", "p3")],
    "buffers": [("default", "b1")],
    "daemon_sets": [("", "d1")],
    "pod_templates": [("default", "t1")],
    "provisioning_requests": [("default", "r1")],
    "pod_groups": [("default", "g1")],
}


def an_object(kind: str, name: str, version: int, size: int) -> Any:
    make: dict[str, Callable[[], Any]] = {
        "nodes": lambda: a_node(name, f"{size}"),
        "pods": lambda: a_pod(name, f"{size}"),
        "buffers": lambda: a_buffer(name, size),
        "daemon_sets": lambda: a_daemon_set(name, f"{size}"),
        "pod_templates": lambda: a_template(name, f"{size}"),
        "provisioning_requests": lambda: a_request(name, ("t1", size)),
        "pod_groups": lambda: a_pod_group(name, size),
    }
    made = make[kind]()
    return replace(made, metadata=replace(made.metadata, resource_version=str(version)))


CHANGES = st.lists(
    st.tuples(st.sampled_from([(kind, key) for kind, keys in OBJECTS.items() for key in keys]), st.integers(0, 2)),
    max_size=8,
)


@given(st.lists(CHANGES, max_size=4))
def test_changes_are_read_as_they_were_written_and_in_order(passes: list[list[tuple[Any, int]]]) -> None:
    writing, reading, version = ChangesWriter(), ChangesReader(), 0
    for changes in passes:
        news = ClusterSnapshotChanges()
        for (kind, (namespace, name)), size in changes:
            version += 1
            changed = getattr(news, kind)
            key = name if kind == "nodes" else (namespace, name)
            changed.pop(key, None)
            changed[key] = an_object(kind, name, version, size) if size else None
        read = [
            reading.read_changes(decode_payload(encode_payload(line), ChangesLine))
            for line in writing.build_lines(news)
        ]
        for kind in OBJECTS:
            assert [item for one in read for item in getattr(one, kind).items()] == [*getattr(news, kind).items()]


def test_storage_is_read_as_it_was_and_only_its_changes_are_written() -> None:
    writing, reading = ChangesWriter(), ChangesReader()
    claims = {("shop", name): PersistentVolumeClaim(ObjectMeta(name=name, namespace="shop")) for name in "abc"}
    volumes = {name: PersistentVolume(ObjectMeta(name=name)) for name in ("v1", "v2")}
    first = Storage(claims, volumes, {"fast": StorageClass(ObjectMeta(name="fast"))})
    second = Storage({key: claims[key] for key in list(claims)[1:]}, {"v2": volumes["v2"]}, {})
    for storage, most in ((first, 500), (second, 250)):
        (line,) = map(encode_payload, writing.build_lines(ClusterSnapshotChanges(storage=storage)))
        assert len(line) < most
        again = reading.read_changes(decode_payload(line, ChangesLine)).storage
        assert again is not None
        for name in ("claims", "volumes", "classes"):
            assert [*getattr(again, name).items()] == [*getattr(storage, name).items()]


def test_recommended_sizes_are_read_as_they_were_written() -> None:
    size = RecommendedSize({"app": {"cpu": 2_000}}, {"app": {"cpu": 500, "memory": 2**30}}, is_evictable=True)
    line = SizesLine(((("default", "web"), size), (("default", "old"), None)))
    assert decode_payload(encode_payload(line), SizesLine) == line


def test_boosts_of_earlier_recordings_are_read_as_sizes() -> None:
    line = decode_payload(b'{"starts":[[["default","web"],{"app":2000}],[["default","old"],{}]]}', BoostsLine)
    web, old = line.build_sizes().values()
    assert (web, old) == (RecommendedSize({"app": {"cpu": 2000}}), RecommendedSize())


def test_devices_are_read_as_they_were_and_only_their_changes_are_written() -> None:
    writing, reading = ChangesWriter(), ChangesReader()
    slices = [a_slice(f"n{number}", 8) for number in range(4)]
    claims = [a_claim("a", devices={"n1": ["gpu-0"]}), a_claim("b")]
    first = collect_devices(*slices, *claims, a_claim_template("one"))
    second = replace(
        first,
        claims={key: first.claims[key] for key in list(first.claims)[1:]},
        slices={name: first.slices[name] for name in list(first.slices)[1:]},
    )
    for devices, most in ((first, 3_000), (second, 250), (UNKNOWN_DEVICES, 400), (first, 3_000)):
        (line,) = map(encode_payload, writing.build_lines(ClusterSnapshotChanges(devices=devices)))
        assert len(line) < most
        assert reading.read_changes(decode_payload(line, ChangesLine)).devices == devices
    assert not [*writing.build_lines(ClusterSnapshotChanges(devices=first))]


def test_without_a_recorder_the_planner_is_used_directly() -> None:
    planning = create_planner(AutoscalerSettings(), -10, NO_RECORDER)
    assert type(planning) is NodePlanner
