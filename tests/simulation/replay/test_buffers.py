"""A recording of a Buffer controller gives the same translations again.

Every world of the controller's tests is replayed when its play is over (`buffer_controller_world`). Here it is shown
that a replay decides anew, what a recording does not tell, and what is refused.
"""

from __future__ import annotations

import msgspec
import pytest

from support.api_server.server import Document
from support.controllers.buffers import TWO_OF_WEB, World, path
from support.worlds.buffers import app
from trellis.base.errors import InvalidRecording
from trellis.base.json_lines import FORMAT_VERSION, HEADER, RecordingHeader, encode_line, read_lines
from trellis.controllers.buffers.process import BufferController
from trellis.core.buffers import BufferSettings
from trellis.core.recording.buffers import BufferRecordingStart
from trellis.core.recording.format import BUFFERS, DECISION_LINE, INPUT_LINE, START_LINE
from trellis.sim.replay.buffers import replay_buffers
from trellis.sim.replay.replay import replay

PRIVATE = "hunter2"


def secretive() -> Document:
    """A container with private data."""
    private: Document = {"env": [{"name": "PASSWORD", "value": PRIVATE}], "command": [PRIVATE], "image": PRIVATE}
    return app(cpu="500m", memory="1Gi") | private


@pytest.fixture(scope="module")
def recording() -> bytes:
    """Percentages of workloads that are created, scaled, resized and deleted; node classes, given pods, schedules."""
    world = World(max_chunks_per_buffer=50)
    spec = {"containers": [secretive()]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    world.add_workload(replicas=10, pods=1, template=template)
    share = {"replicas": {"percent": {"percent": 30, "minCount": 1}}}
    schedule = {"timeZone": "Europe/Berlin", "windows": [{"start": "0 14 * * *", "duration": "1h"}]}
    world.add_buffer(**TWO_OF_WEB, capacity=share)
    world.add_buffer("given", capacity={"pods": {"replicaNum": 99, "podSpec": spec}}, schedule=schedule)
    pool = {"targetRef": {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "spot"}}
    world.add_buffer("class", **pool, capacity={"nodeClass": {"totalCpu": "40", "totalMem": "5120Mi"}})
    dedicated = {"recreationStrategy": "KeepMinimum", "podSelector": {"matchLabels": {"app": "web"}}}
    world.add_buffer("filled", capacity={"pods": {"replicaNum": 4, "podSpec": spec}}, **dedicated)
    odd = {"containers": [{**secretive(), "ports": "none"}]}
    world.add_buffer("broken", capacity={"pods": {"replicaNum": 4, "podSpec": odd}})

    async def play(_: BufferController) -> None:
        world.scale(40)
        world.add_vpa("2")
        await world.wait(5.0)
        world.add_node("n1", "8", **{"karpenter.sh__nodepool": "spot"})
        await world.wait(7200.0)
        world.server.delete(path("deployments", "web"))
        await world.wait(30.0)

    world.run(play)
    return world.recording.lines


def changed(written: bytes, kind: str, **fields: object) -> bytes:
    """The same recording with other values in all lines of a kind."""
    result = [(name, msgspec.json.decode(data)) for name, data in read_lines(written)]
    return b"".join(encode_line(name, {**data, **fields} if name == kind else data) for name, data in result)


def test_replayed_translations_of_all_kinds_are_equal_byte_for_byte(recording: bytes) -> None:
    report = replay(recording)
    assert (report.component, report.first) == (BUFFERS, None)
    assert report.decisions >= 10
    result = b"".join(decision.decided for decision in replay_buffers(read_lines(recording)))
    for word in (
        *("BufferReady", "ChunksTruncated", "OutsideSchedule", "NodeClassEmpty", "BufferFilled", "TargetNotFound"),
        *("PodSpecUnreadable", '"cpu":"2"'),
    ):
        assert word.encode() in result, word


def test_a_replay_decides_again_and_reports_differences(recording: bytes) -> None:
    report = replay(changed(recording, START_LINE, settings={"most_chunks": 1}))
    assert report.different > 0
    assert report.first is not None
    assert report.first.path.startswith(("$.chunks", "$.ready"))
    report = replay(changed(recording, DECISION_LINE, wanted=-1))
    assert report.different == report.decisions == len({str(difference) for difference in report.differences})
    assert all(" differs at $.wanted: recorded -1, now " in str(difference) for difference in report.differences)
    assert str(report.first).startswith("decision 1 (")


def test_only_fields_that_a_translation_reads_are_recorded(recording: bytes) -> None:
    assert b"containers" in recording
    assert PRIVATE.encode() not in recording
    assert b"PASSWORD" not in recording


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([("weather", {})], "weather.*comes before a line of kind start"),
        (
            [(START_LINE, BufferRecordingStart(BufferSettings())), ("weather", {})],
            "is not valid in a recording of the Buffer controller",
        ),
        (
            [(START_LINE, BufferRecordingStart(BufferSettings())), (DECISION_LINE, {})],
            "decision.*comes before a line of kind input",
        ),
        (
            [(START_LINE, BufferRecordingStart(BufferSettings())), (INPUT_LINE, {"now": "noon"})],
            "is invalid",
        ),
    ],
)
def test_a_file_that_is_no_recording_is_refused_with_the_reason(lines: list[tuple[str, object]], why: str) -> None:
    written = encode_line(HEADER, RecordingHeader(FORMAT_VERSION, BUFFERS)) + b"".join(
        encode_line(*line) for line in lines
    )
    with pytest.raises(InvalidRecording, match=why):
        replay(written)
