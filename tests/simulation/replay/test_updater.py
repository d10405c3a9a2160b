"""A recording of an updater gives the same decisions again.

Every world of the updater's tests is replayed when its play is over (`updater_world`). Here it is shown that a replay
decides anew, what it refuses, and that a recording harms nobody.
"""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import msgspec
import pytest

from support.controllers.updater import FREEZE, MINUTE, World
from trellis.base.errors import InvalidInput, InvalidRecording
from trellis.base.json_lines import FORMAT_VERSION, HEADER, RecordingHeader, encode_line, read_lines
from trellis.controllers.updater.process import UpdaterController
from trellis.controllers.updater.settings import UpdaterSettings
from trellis.core.recording.format import UPDATER
from trellis.core.recording.updater import LINE_TYPES
from trellis.runtime.recorder import Recorder, open_recorder, read_recording
from trellis.sim.replay.replay import replay
from trellis.sim.replay.updater import replay_updater


def busy_world(*flags: str) -> World:
    """Everything an updater does: evictions, resizes, refusals, waits and freezes."""
    world = World("--evictions-per-hour=9", *flags)
    world.add_workload("web", 4)
    world.add_workload("api", 3, mode="InPlaceOrRecreate")
    world.add_workload("single", 1)
    world.add_hpa("api", "memory")
    limits = {"limits": [{"type": "Container", "max": {"cpu": "400m"}}]}
    world.server.put("/api/v1/namespaces/shop/limitranges/few", {"spec": limits})
    asked: list[str] = []

    def every_third(pod: str) -> bool:
        asked.append(pod)
        return len(asked) % 3 > 0

    world.budget = every_third

    async def play(_updater: UpdaterController) -> None:
        await world.passes(3)
        world.recommend("web", "200m")
        world.recommend("api", "900m")
        await world.passes(3)
        world.admission_live = False
        world.recommend("web", "300m")
        await world.passes(2)
        world.admission_live = True
        world.server.put("/api/v1/nodes/node-2", {"status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}})
        world.server.put(FREEZE, {"data": {"by": "tests"}})
        world.server.break_watches()
        await world.passes(1)
        world.server.delete(FREEZE)
        await world.passes(30)
        world.server.delete("/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/api")
        await world.passes(2)

    world.run(play)
    return world


def test_objects_with_warnings_are_read_again() -> None:
    """The world is replayed when its play is over: what a warning is about can be anything."""
    world = World()
    world.add_workload(mode="Auto")
    world.add_workload("odd", mode="Sometimes")

    async def play(_updater: UpdaterController) -> None:
        await world.passes(2)
        assert len(world.evictions) == 2

    world.run(play)


def changed(recording: bytes, kind: str, **fields: object) -> bytes:
    """The same recording with other values in all lines of a kind."""
    written = [(name, msgspec.json.decode(data)) for name, data in read_lines(recording)]
    return b"".join(encode_line(name, {**data, **fields} if name == kind else data) for name, data in written)


def test_decisions_are_the_same_byte_for_byte_and_are_all_kinds_of_them() -> None:
    world = busy_world()
    report = replay(world.recording.getvalue())
    assert report.first is None
    assert report.decisions == len(world.replayed()) > 10
    result = b"".join(decision.decided for decision in world.replayed())
    for word in ("EvictPod", "ResizePod", "BackingOff", "TooFewReplicas", "AdmissionAbsent", "HourlyBudgetExhausted"):
        assert word.encode() in result, word


def test_every_kind_of_line_can_come_in_a_recording() -> None:
    world = busy_world()
    kinds = {kind for kind, _ in read_lines(world.recording.getvalue())}
    # Answers of scales are recorded where there are such targets (`test_updater_targets`), and shards where replicas
    # share namespaces (`simulation/replicas/test_sharded_updater.py`).
    assert set(LINE_TYPES) - kinds == {"scales", "shard"}


def test_a_replay_decides_again_and_reports_differences() -> None:
    world = busy_world()
    settings = {"settings": {"eviction_tolerance": 1.0, "min_replicas": 1}}
    report = replay(changed(world.recording.getvalue(), "start", **settings))
    assert report.different > 0
    assert report.first is not None
    assert report.first.path.startswith("$.plans")


def test_a_truncated_recording_is_replayed_up_to_its_end() -> None:
    whole = busy_world().recording.getvalue()
    report = replay(whole[: len(whole) // 2])
    assert report.first is None
    assert report.decisions > 0


def line(kind: str, payload: object) -> bytes:
    return encode_line(HEADER, RecordingHeader(FORMAT_VERSION, UPDATER)) + encode_line(kind, payload)


@pytest.mark.parametrize(
    ("kind", "payload", "why"),
    [
        ("weather", {}, "weather.*is not valid in a recording of the updater"),
        ("input", {"workloads": [], "now": 1.0}, "input.*comes before a line of kind start"),
        (
            "start",
            {"settings": {"min_replicas": "two"}, "has_headroom": True},
            "is invalid.*min_replicas",
        ),
    ],
)
def test_an_invalid_recording_is_refused_with_the_reason(kind: str, payload: object, why: str) -> None:
    with pytest.raises(InvalidRecording, match=why):
        list(replay_updater(read_lines(line(kind, payload))))


def test_a_controller_of_an_unwatched_kind_is_refused() -> None:
    put = encode_line("workload", {"kind": "Rollout", "key": ["shop", "web"], "new": None, "old": None})
    start = line("start", {"settings": {}, "has_headroom": False})
    with pytest.raises(InvalidRecording, match=r"Rollout.*is not a kind of controller"):
        list(replay_updater(read_lines(start + put)))


class Full(io.BytesIO):
    """A disk that has become full."""

    def write(self, _data: object) -> int:
        raise OSError(28, "No space left on device")


def test_a_recording_that_fails_is_reported_once_and_the_updater_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    world.add_workload("web")
    monkeypatch.setattr(world, "_recorder", lambda: Recorder(Full()))
    monkeypatch.setattr(world, "replayed", list)

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(2 * MINUTE)
        assert world.requests() == ["500m", "500m"]

    world.run(play)
    assert [record.message for record in caplog.records].count("writing the recording failed; recording stopped") == 1


def test_a_file_that_cannot_be_written_is_refused_by_its_flag(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="flag --record: cannot be written"):
        open_recorder(str(tmp_path / "nowhere" / "file"), UPDATER, UpdaterSettings())


def test_a_recording_file_has_all_lines_and_is_compressed_by_its_suffix(tmp_path: Path) -> None:
    written = busy_world().recording.getvalue()
    path = tmp_path / "updater.gz"
    file = open_recorder(str(path), UPDATER, UpdaterSettings())
    for kind, data in read_lines(written):
        if kind != HEADER:
            file.write(kind, data)
    file.close()
    assert path.stat().st_size < len(written) / 5
    report = replay(read_recording(path))
    assert report.first is None
    assert report.decisions > 10
