"""A recording of a recommender gives the same decisions again, whatever happened while it was recorded."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime

import pytest

from support.controllers.recommender import NAMESPACE, VPAS, World
from trellis.base.errors import InvalidRecording, Unreachable
from trellis.base.json_lines import FORMAT_VERSION, HEADER, RecordingHeader, encode_line, read_lines
from trellis.base.times import format_time
from trellis.core.recommend.state.tables import SHADOW_RECOMMENDERS
from trellis.core.recording import recommender
from trellis.core.recording.format import RECOMMENDER
from trellis.runtime.recorder import NO_RECORDER, Recorder
from trellis.sim.replay.recommender import replay_recommender
from trellis.sim.replay.replay import find_difference, replay
from trellis.testing.scripted_transport import error_response

FLAGS = ("--recommender-name=default,seasonal,adaptive,phases,own", "--set=default.recommendation-margin-fraction=0.2")
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class RecordedFile(io.BytesIO):
    """A file whose contents outlive it."""

    def __init__(self) -> None:
        super().__init__()
        self.contents = b""

    def close(self) -> None:
        self.contents = self.getvalue()


def recorder() -> tuple[Recorder, RecordedFile]:
    file = RecordedFile()
    recorder = Recorder(file)
    recorder.write(HEADER, RecordingHeader(FORMAT_VERSION, RECOMMENDER))
    return recorder, file


def kill(world: World, pod: str) -> None:
    """Let a container of a pod be killed for its memory, and start again."""
    document = world.server.objects[f"{PODS}/{pod}"]
    ended = {"reason": "OOMKilled", "finishedAt": format_time(datetime.fromtimestamp(world.now(), UTC))}
    statuses = [{"name": "app", "lastState": {"terminated": ended}}]
    world.server.put(f"{PODS}/{pod}", {**document, "status": {**document["status"], "containerStatuses": statuses}})


def kill_after_a_missed_resize(world: World, pod: str) -> None:
    """A new pod whose container was killed after a resize in its back-off; nobody saw what it requested before."""

    def at(ago: float) -> str:
        return format_time(datetime.fromtimestamp(world.now() - ago, UTC))

    document = world.server.objects[f"{PODS}/{pod}"]
    runs = [
        {"reason": "OOMKilled", "startedAt": at(start), "finishedAt": at(end)} for start, end in ((90, 60), (30, 1))
    ]
    statuses = [{"name": "app", "lastState": {"terminated": runs[0]}, "state": {"terminated": runs[1]}}]
    resized = [{"manager": "kubectl", "time": at(45), "subresource": "resize"}]
    metadata = {**document["metadata"], "managedFields": resized, "uid": "seen-late"}
    status = {**document["status"], "containerStatuses": statuses}
    world.server.delete(f"{PODS}/{pod}")
    world.server.put(f"{PODS}/{pod}", {**document, "metadata": metadata, "status": status})


def replace(world: World, app: str, pod: str) -> None:
    """Another pod of the same name, as a StatefulSet makes it."""
    world.server.delete(f"{PODS}/{pod}")
    world.add_pod(app, pod)


def edit(world: World, name: str, **spec: object) -> None:
    vpa = world.vpa(name)
    metadata = {"generation": vpa["metadata"]["generation"] + 1}
    world.server.put(f"{VPAS}/{name}", {**vpa, "metadata": metadata, "spec": {**vpa["spec"], **spec}})


def busy_world(file: Recorder) -> World:
    world = World(*FLAGS, recorder=file)
    for number, name in enumerate(("web", "api", "batch", "cache")):
        world.add_workload(name, cpu=f"{200 + 100 * number}m", memory=f"{300 + 50 * number}Mi")
    edit(world, "api", recommenders=[{"name": "seasonal"}])
    edit(world, "batch", recommenders=[{"name": "phases"}])
    edit(world, "cache", recommenders=[{"name": "own"}])
    shadowed = world.vpa("web")
    annotations = {"annotations": {SHADOW_RECOMMENDERS: "adaptive"}}
    world.server.put(f"{VPAS}/web", {**shadowed, "metadata": {**shadowed["metadata"], **annotations}})
    return world


async def an_eventful_time(world: World) -> None:
    await world.passes(3)
    kill(world, "web-0")
    await world.passes(1)
    kill_after_a_missed_resize(world, "api-0")
    await world.passes(1)
    edit(world, "web", resourcePolicy={"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "150m"}}]})
    world.usage["api-0"] = {"app": {"cpu": "1500m", "memory": "900Mi"}}
    await world.passes(2)
    replace(world, "batch", "batch-0")
    world.server.delete(f"{VPAS}/cache")
    await world.passes(2)
    world.add_vpa("cache")
    world.fault = lambda request: error_response(500, "InternalError", "no") if "metrics" in request.path else None
    await world.passes(1)
    world.fault = lambda request: Unreachable("gone") if request.method != "GET" else None
    await world.passes(2)
    world.fault = lambda _request: None
    world.server.compact()
    world.server.break_watches()
    await world.passes(15)


def play(world: World) -> None:
    world.run(lambda: an_eventful_time(world))


@pytest.fixture(scope="module")
def eventful() -> bytes:
    file, recorded = recorder()
    play(busy_world(file))
    file.close()
    return recorded.contents


def test_a_replay_of_many_events_has_the_same_decisions_byte_for_byte(eventful: bytes) -> None:
    replayed = list(replay_recommender(read_lines(eventful)))
    assert [decision for decision in replayed if not decision.is_same] == []
    assert sum(b"containerRecommendations" in decision.recorded for decision in replayed) > 5
    # A kill under an old limit is written down as one, and left out again.
    assert any(b'"old_limit":true' in bytes(line) for _, line in read_lines(eventful))


def test_a_start_from_checkpoints_gives_the_same_decisions() -> None:
    before = busy_world(NO_RECORDER)
    play(before)
    file, recorded = recorder()
    again = World(*FLAGS, recorder=file)
    again.server.objects, again.server.version = before.server.objects, before.server.version
    again.usage = before.usage

    async def later() -> None:
        await again.passes(3)
        kill(again, "api-1")
        await again.passes(3)

    again.run(later)
    file.close()
    replayed = list(replay_recommender(read_lines(recorded.contents)))
    restored = [data for kind, data in read_lines(recorded.contents) if kind == recommender.RESTORE]
    assert any(b'"web","app"' in bytes(line) for line in restored)
    assert [decision for decision in replayed if not decision.is_same] == []


def test_another_figure_shows_as_a_difference(eventful: bytes) -> None:
    other = eventful.replace(b'"pod_min_cpu_millicores":25.0', b'"pod_min_cpu_millicores":400.0', 1)
    replayed = list(replay_recommender(read_lines(other)))
    result = next(
        find_difference(decision, number) for number, decision in enumerate(replayed, 1) if not decision.is_same
    )
    assert result.path == "$[0].status.recommendation.containerRecommendations[0].target.cpu"
    assert (result.recorded, result.decided) == ('"350m"', '"400m"')


def test_the_report_counts_decisions_and_shows_the_first_that_differs(eventful: bytes) -> None:
    same = replay(eventful)
    assert (same.component, same.different, same.first) == ("recommender", 0, None)
    assert str(same) == f"{same.decisions} decisions, no differences"
    other = replay(eventful.replace(b'"pod_min_cpu_millicores":25.0', b'"pod_min_cpu_millicores":400.0', 1))
    assert other.decisions == same.decisions
    assert other.different > 1
    assert "decision 2 differs at $[0].status" in str(other)


def test_a_truncated_recording_is_replayed_up_to_its_end(eventful: bytes) -> None:
    whole = list(replay_recommender(read_lines(eventful)))
    half = list(replay_recommender(read_lines(eventful[: len(eventful) // 2])))
    assert 0 < len(half) < len(whole)
    assert half == whole[: len(half)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "is empty"),
        ([b"pods: 3\n"], "line 1 is not valid in a recording"),
        ([encode_line("seen", {})], "line 1 is not a header"),
        *(
            (
                [encode_line(HEADER, {"format": old, "component": "recommender"})],
                "another release; this one reads format 2",
            )
            for old in (1, 7)
        ),
        (
            [encode_line(HEADER, RecordingHeader(FORMAT_VERSION, "scheduler"))],
            '"scheduler": cannot be replayed',
        ),
        (
            [encode_line(HEADER, RecordingHeader(FORMAT_VERSION, RECOMMENDER)), b"{}\n"],
            "line 2 is not valid in a recording",
        ),
        (
            [encode_line(HEADER, RecordingHeader(FORMAT_VERSION, RECOMMENDER)), encode_line("pods", {})],
            "before a line of kind setup",
        ),
        (
            [encode_line(HEADER, RecordingHeader(FORMAT_VERSION, RECOMMENDER)), encode_line("setup", {})],
            "is invalid",
        ),
    ],
)
def test_an_invalid_recording_is_refused(lines: list[bytes], message: str) -> None:
    with pytest.raises(InvalidRecording, match=re.escape(message)):
        replay(lines)


def test_estimates_of_an_installed_recommender_cannot_be_replayed(eventful: bytes) -> None:
    head = list(eventful.splitlines(keepends=True))[:2]
    line = encode_line(recommender.HOSTS, recommender.HostedRecommendersLine({"own": recommender.INSTALLED}))
    with pytest.raises(InvalidRecording, match='"own": is a recommender that does not come with Trellis'):
        replay([*head, line])
