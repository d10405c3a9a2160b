"""A recording of a node autoscaler gives the same plans again.

Every world of the controller's tests is replayed when its play is over (`nodes_controller_world`). Here it is shown
that a replay decides anew, that only what has changed is written, what a recording does not tell, and what is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from support.controllers.nodes import BOOT, BUFFERS, World, seconds
from support.worlds.providers.kwok_nodes import group
from trellis.base.errors import InvalidRecording
from trellis.base.json_lines import FORMAT_VERSION, HEADER, RecordingHeader, encode_line, read_lines
from trellis.cli.main import trellis
from trellis.controllers.nodes.process import NodeController
from trellis.core.nodes import ScaleDownSettings, ScaleUpSettings
from trellis.core.recording.format import DECISION_LINE, INPUT_LINE, NODES, START_LINE
from trellis.core.recording.nodes.changes import CHANGES
from trellis.core.recording.nodes.passes import SIZES, GroupLine, NodesRecordingStart, PassLine
from trellis.sim.replay.nodes import replay_nodes
from trellis.sim.replay.replay import replay

QUICK = {
    "scale_down_unneeded_time": seconds(60),
    "scale_down_delay_after_add": seconds(30),
    "unremovable_node_recheck_timeout": seconds(10),
}
SHOP = "/api/v1/namespaces/shop"
PRIVATE = "hunter2"


@pytest.fixture(scope="module")
def recording() -> bytes:
    """Orders, a refused one, headroom of a Buffer, a boost, a budget, a claim, a drain, removals, a new leader."""
    broken = group("broken", priority=9, fails={"how": "RefuseOrders"})
    world = World(broken, group(minSize=1), down=QUICK)
    world.add_boost("web", factor=4)
    budget = {"spec": {"selector": {"matchLabels": {"app": "kept"}}}, "status": {"disruptionsAllowed": 0}}
    world.server.put("/apis/policy/v1/namespaces/shop/poddisruptionbudgets/kept", budget)
    claim = {"spec": {"storageClassName": "none"}, "status": {"phase": "Pending"}}
    world.server.put(f"{SHOP}/persistentvolumeclaims/data", claim)

    async def play(controller: NodeController) -> None:
        world.add_pods(5)
        world.add_pod("big", cpu="99")
        world.add_pod("stored", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
        world.add_buffer(chunks=2)
        await world.wait(BOOT + 40)
        for name in list(world.placed())[:3]:
            world.server.delete(f"{SHOP}/pods/{name}")
        await world.wait(180)
        world.server.delete("/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/web")
        world.server.put(f"{SHOP}/persistentvolumeclaims/data", {**claim, "spec": {"storageClassName": "some"}})
        world.resize_buffer(0)
        await world.wait(180)
        world.leads = False
        await world.wait(30)
        world.leads = True
        controller.on_started_leading()
        world.delete_pods()
        world.server.delete(f"{BUFFERS}/spare")
        await world.wait(180)

    world.run(play)
    assert len(world.nodes()) == 1
    return world.recording.lines


def documents(written: bytes) -> list[tuple[str, Any]]:
    return [(kind, msgspec.json.decode(data)) for kind, data in read_lines(written)]


def changed(written: bytes, kind: str, **fields: object) -> bytes:
    """The same recording with other values in all lines of a kind."""
    return b"".join(
        encode_line(name, {**data, **fields} if name == kind else data) for name, data in documents(written)
    )


def test_replayed_plans_of_all_kinds_are_equal_byte_for_byte(recording: bytes) -> None:
    report = replay(recording)
    assert (report.component, report.first) == (NODES, None)
    assert report.decisions > 20
    assert {kind for kind, _ in read_lines(recording)} == {
        HEADER,
        START_LINE,
        CHANGES,
        INPUT_LINE,
        SIZES,
        DECISION_LINE,
    }
    result = b"".join(decision.decided for decision in replay_nodes(read_lines(recording)))
    for word in (
        *("OrderedForPods", "NodeOrdered", "NoGroupFits", "BufferProvisioned", "NoPlaceForPods"),
        *("NodeInUse", "NodeUnneeded", "NodeTainted", "SetTaints", "EvictPod", "ReleaseNode"),
    ):
        assert word.encode() in result, word
    remembered = [data["memory"] for kind, data in documents(recording) if kind == INPUT_LINE and "memory" in data]
    assert any("broken" in memory.get("up", {}).get("backoffs", {}) for memory in remembered)
    assert any(memory.get("down", {}).get("last_added_at", 0) is None for memory in remembered)


def test_a_replay_decides_again_and_reports_differences(recording: bytes) -> None:
    figures = msgspec.json.decode(msgspec.json.encode(NodesRecordingStart(ScaleUpSettings(), ScaleDownSettings(), -10)))
    report = replay(changed(recording, START_LINE, up={**figures["up"], "max_nodes_total": 1}))
    assert report.first is not None
    assert report.first.path.startswith("$.up.orders")
    assert "recorded " in str(report.first)
    report = replay(changed(recording, START_LINE, down={**figures["down"], "scale_down_enabled": False}))
    assert report.first is not None
    assert 'now "ScaleDownOff"' in str(report.first)


def test_a_changed_decision_is_reported_with_its_path(recording: bytes) -> None:
    lines = documents(recording)
    at = next(number for number, (kind, data) in enumerate(lines) if kind == DECISION_LINE and data["up"]["orders"])
    lines[at][1]["up"]["orders"][0]["count"] += 1
    report = replay(b"".join(encode_line(*line) for line in lines))
    assert report.different == 1
    assert report.first is not None
    number = sum(kind == DECISION_LINE for kind, _ in lines[: at + 1])
    assert (report.first.number, report.first.path) == (number, "$.up.orders[0].count")


def test_a_pass_without_changes_records_only_its_time() -> None:
    world = World()

    async def play(_: NodeController) -> None:
        world.add_pods(8)
        world.add_buffer(chunks=4)
        await world.wait(BOOT + 300)

    world.run(play)
    lines = documents(world.recording.lines)
    last = max(number for number, (kind, _) in enumerate(lines) if kind == DECISION_LINE)
    (line_kind, about), (_, decided) = lines[last - 1 : last + 1]
    assert (line_kind, set(about)) == (INPUT_LINE, {"now"})
    assert set(decided) == {"up", "down"}
    result = [pod for kind, data in lines if kind == CHANGES for pod in data.get("pods", ())]
    # Each as it came, as it was refused and as it was placed.
    assert 8 <= sum("now" in pod for pod in result) <= 24


def test_an_unchanged_object_is_recorded_as_its_version() -> None:
    world = World()
    world.add_node("mine")

    async def play(_: NodeController) -> None:
        await world.wait(30)
        world.server.put("/api/v1/nodes/mine", world.nodes()["mine"])
        await world.wait(30)

    world.run(play)
    first, repeated = (
        node for kind, data in documents(world.recording.lines) if kind == CHANGES for node in data.get("nodes", ())
    )
    assert "now" in first
    assert repeated == {"key": ["", "mine"], "version": world.nodes()["mine"]["metadata"]["resourceVersion"]}


def test_only_fields_that_a_plan_reads_are_recorded() -> None:
    world = World()
    container = {"name": "app", "env": [{"name": "PASSWORD", "value": PRIVATE}], "command": [PRIVATE]}
    template = {"spec": {"containers": [container]}}
    applied = {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": PRIVATE}}
    world.server.put(
        "/apis/apps/v1/namespaces/shop/daemonsets/agent", {"metadata": applied, "spec": {"template": template}}
    )
    world.add_buffer("odd")
    for name, pod in (("even", {"containers": [container]}), ("odd", {"containers": [{**container, "ports": "none"}]})):
        pods = {"replicaNum": 2, "podSpec": pod}
        spec = {"capacity": {"pods": pods}}
        document = {"metadata": applied, "spec": spec, "status": {"podBasedBufferSpec": pods}}
        world.server.put(f"{BUFFERS}/{name}", document)

    async def play(_: NodeController) -> None:
        await world.wait(BOOT + 30)
        assert world.provisioned("even")[0] == "True"
        assert world.provisioned("odd") == ("False", "ChunksUnreadable")

    world.run(play)
    written = world.recording.lines
    assert all(word in written for word in (b"containers", b"agent", b"even", b"ChunksUnreadable"))
    assert PRIVATE.encode() not in written
    assert b"PASSWORD" not in written


def test_a_truncated_recording_is_replayed_to_its_end(recording: bytes) -> None:
    report = replay(recording[: len(recording) // 2])
    assert report.first is None
    assert report.decisions > 0


def test_the_command_reports_the_difference_by_its_exit_code(recording: bytes, tmp_path: Path) -> None:
    same, other = tmp_path / "same.jsonl", tmp_path / "other.jsonl"
    same.write_bytes(recording)
    other.write_bytes(changed(recording, DECISION_LINE, down={"actions": [], "next_look": 1.0}))
    result = CliRunner().invoke(trellis, ["simulate", "--replay", str(same)])
    assert (result.exit_code, "decisions, no differences" in result.output) == (0, True)
    result = CliRunner().invoke(trellis, ["simulate", "--replay", str(other)])
    assert result.exit_code == 1
    assert "decision 1 differs at $.down.next_look: recorded 1.0" in result.output


BEGINS = (START_LINE, NodesRecordingStart(ScaleUpSettings(), ScaleDownSettings(), -10))
AGAIN = {"key": ["shop", "web-1"], "version": "7"}


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([("weather", {})], "weather.*comes before a line of kind start"),
        ([BEGINS, ("weather", {})], "weather.*is not valid in a recording of the node autoscaler"),
        ([BEGINS, (DECISION_LINE, {})], "decision.*comes before a line of kind input"),
        (
            [BEGINS, (INPUT_LINE, PassLine(1.0)), (DECISION_LINE, {}), (DECISION_LINE, {})],
            "decision.*comes before a line of kind input",
        ),
        ([BEGINS, (INPUT_LINE, {"now": "noon"})], "is invalid.*now"),
        ([BEGINS, (CHANGES, {"pods": [AGAIN]})], "shop/web-1.*is referenced, but no line before declares it"),
        (
            [BEGINS, (INPUT_LINE, PassLine(1.0, (GroupLine("small", 1),))), (DECISION_LINE, {})],
            "small.*is a node group that no line before declares",
        ),
        (
            [BEGINS, (INPUT_LINE, {"now": 1.0, "memory": {"up": {"chunk_nodes": 3}}}), (DECISION_LINE, {})],
            "is invalid",
        ),
    ],
)
def test_a_file_that_is_no_recording_is_refused_with_the_reason(lines: list[tuple[str, object]], why: str) -> None:
    written = encode_line(HEADER, RecordingHeader(FORMAT_VERSION, NODES)) + b"".join(
        encode_line(*line) for line in lines
    )
    with pytest.raises(InvalidRecording, match=why):
        replay(written)
