"""Recommenders that share namespaces: no VPA has two, none is without one for 30 seconds, and no history is lost."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, closing

from support.controllers.shards import NAMESPACES, ShardedCluster, ShardReplica
from support.replicas import LEASES, wait_until
from trellis.base.json_lines import FORMAT_VERSION, HEADER, RecordingHeader, read_lines
from trellis.controllers.recommender.plugins.hosted_recommenders import host_recommenders
from trellis.controllers.recommender.process import recommender_spec
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.core.recording.format import RECOMMENDER
from trellis.runtime.recorder import Recorder
from trellis.runtime.settings.loader import from_flags, load_settings
from trellis.runtime.telemetry.health_server import PageRequest
from trellis.runtime.telemetry.metrics import Metrics
from trellis.sim.replay.recommender import replay_recommender
from trellis.testing.scripted_transport import error_response

MOST_SECONDS = 30.0


class Recommenders(ShardedCluster):
    """The cluster, and its recommenders."""

    def __init__(self, **flags: str) -> None:
        super().__init__()
        given = {"shard_namespaces": "true"} | flags
        self._settings = load_settings(RecommenderSettings, from_flags(RecommenderSettings, given)).settings
        self._opened = ExitStack()
        self.recordings: list[io.BytesIO] = []

    def start(self, name: str) -> ShardReplica:
        self.recordings.append(io.BytesIO())
        recorder = Recorder(self.recordings[-1])
        recorder.write(HEADER, RecordingHeader(FORMAT_VERSION, RECOMMENDER))
        hosted = self._opened.enter_context(closing(host_recommenders(self._settings, Metrics(()))))
        return ShardReplica(
            self, name, lambda _metrics: recommender_spec(self._settings, hosted), self._settings, recorder
        )

    def run(self, play: Callable[[], Awaitable[None]]) -> None:
        with self._opened:
            super().run(play)

    def list_samples(self) -> dict[str, int]:
        """How many samples the checkpoint of each namespace has."""
        plural = "verticalpodautoscalercheckpoints"
        where = "/apis/autoscaling.k8s.io/v1/namespaces/{}/" + plural + "/web-app"
        found = {namespace: self.server.objects.get(where.format(namespace)) for namespace in NAMESPACES}
        return {namespace: document["status"]["totalSamplesCount"] for namespace, document in found.items() if document}


def has_recommended(replica: ShardReplica, namespace: str) -> bool:
    """Whether the last pass of a replica had the VPA of a namespace, which it still serves."""
    last = replica.controller.http_api.last_pass() if replica.controller is not None else None
    return last is not None and last.find(namespace, "web") >= 0 and replica.covers(namespace)


def is_served(replicas: Sequence[ShardReplica]) -> bool:
    """Whether each VPA was in the last pass of one of these replicas, and all of them serve some."""
    servers = {name: [each.name for each in replicas if has_recommended(each, name)] for name in NAMESPACES}
    return all(len(names) == 1 for names in servers.values()) and len(replicas) == len(
        {name for names in servers.values() for name in names}
    )


def test_recommenders_are_killed_and_added_and_each_vpa_has_one_within_30_seconds() -> None:
    cluster = Recommenders()

    async def play() -> None:
        replicas = [cluster.start("a"), cluster.start("b"), cluster.start("c")]
        checking = asyncio.create_task(cluster.check_exclusive(replicas))
        assert await wait_until(lambda: is_served(replicas)) < MOST_SECONDS
        await replicas[0].kill()
        assert await wait_until(lambda: is_served(replicas[1:])) < MOST_SECONDS
        replicas.append(cluster.start("d"))
        assert await wait_until(lambda: is_served(replicas[1:])) < MOST_SECONDS
        await replicas[1].stop()
        assert await wait_until(lambda: is_served(replicas[2:])) < MOST_SECONDS / 3
        assert not checking.done(), checking.result()
        assert not any(replica.stop_reason for replica in replicas)
        for replica in replicas[2:]:
            await replica.stop()

    cluster.run(play)
    for recording in cluster.recordings:
        decisions = list(replay_recommender(read_lines(recording.getvalue())))
        assert decisions
        assert all(decision.decided == decision.recorded for decision in decisions)


def test_namespaces_of_others_are_served_all_the_time_while_replicas_come_and_go() -> None:
    cluster = Recommenders()

    async def play() -> None:
        first, second = cluster.start("a"), cluster.start("b")
        await wait_until(lambda: is_served([first, second]))
        third = cluster.start("c")
        await wait_until(lambda: is_served([first, second, third]))
        kept = [namespace for namespace in NAMESPACES if first.covers(namespace)]
        await second.kill()

        async def check() -> None:
            while True:
                assert all(first.covers(namespace) for namespace in kept)
                await asyncio.sleep(0.2)

        checking = asyncio.create_task(check())
        await wait_until(lambda: is_served([first, third]))
        assert not checking.done(), checking.result()

    cluster.run(play)


def test_a_recommender_that_takes_namespaces_continues_with_all_of_their_history() -> None:
    # Checkpoints of a pass are for four of the 24 VPAs: without a handover the others would be old.
    cluster = Recommenders(checkpoint_writes_per_pass="4")  # noqa: S106 - passes of the recommender

    async def play() -> None:
        first = cluster.start("a")
        await wait_until(lambda: is_served([first]))
        await asyncio.sleep(600.0)
        second = cluster.start("b")
        await wait_until(lambda: is_served([first, second]))
        taken = [namespace for namespace in NAMESPACES if second.covers(namespace)]
        samples = cluster.list_samples()
        assert 5 < len(taken) < 20
        # Eleven passes or twelve, with two pods each.
        assert {samples[namespace] for namespace in taken} <= {22, 24}
        await asyncio.sleep(600.0)
        kept = cluster.list_samples()
        assert all(kept[namespace] > samples[namespace] for namespace in taken)
        assert all(writers == ["a", "b"] for name, writers in cluster.list_writers().items() if name in taken)
        assert all(writers == ["a"] for name, writers in cluster.list_writers().items() if name not in taken)

    cluster.run(play)


def test_checkpoints_without_a_vpa_are_removed_by_the_replica_that_serves_their_namespace() -> None:
    cluster = Recommenders(checkpoints_gc_interval="120s")

    async def play() -> None:
        replicas = [cluster.start("a"), cluster.start("b")]
        await wait_until(lambda: is_served(replicas))
        await wait_until(lambda: len(cluster.list_samples()) == len(NAMESPACES), most=300.0)
        for namespace in NAMESPACES:
            cluster.server.put(
                f"/apis/autoscaling.k8s.io/v1/namespaces/{namespace}/verticalpodautoscalercheckpoints/gone-app",
                {"spec": {"vpaObjectName": "gone", "containerName": "app"}},
            )
        await asyncio.sleep(300.0)
        assert not [path for path in cluster.server.objects if path.endswith("/gone-app")]
        removed = {write.namespace: write.replica for write in cluster.writes if write.path.endswith("/gone-app")}
        owners = {name: each.name for name in NAMESPACES for each in replicas if each.covers(name)}
        assert removed == owners

    cluster.run(play)


def test_without_the_right_to_list_leases_a_replica_serves_nothing_and_says_so() -> None:
    cluster = Recommenders()
    cluster.fault = lambda request: (
        error_response(403, "Forbidden", "leases is forbidden") if request.path == LEASES else None
    )

    async def play() -> None:
        replica = cluster.start("a")
        await asyncio.sleep(30.0)
        problem = replica.component.ready["shard"]()
        assert problem is not None
        assert "no member Lease yet" in problem
        assert not any(replica.covers(namespace) for namespace in NAMESPACES)
        assert not cluster.writes

    cluster.run(play)


def test_the_api_names_another_replica_and_metrics_the_shard() -> None:
    cluster = Recommenders()

    async def play() -> None:
        first, second = cluster.start("a"), cluster.start("b")
        await wait_until(lambda: is_served([first, second]))
        for namespace in NAMESPACES:
            page = first.controller.http_api.pages["/recommendations/{namespace}/{vpa}"]
            response = await page(PageRequest({"namespace": namespace, "vpa": "web"}, {}))
            assert response.status == (200 if first.covers(namespace) else 404)
            assert ("another replica serves namespace" in response.text) is second.covers(namespace)
        first.component.metrics.flush()
        text = first.component.metrics.format_text().decode()
        member = first.component.leadership.member
        assert f'trellis_shard_info{{component="recommender",member="{member}"}} 1\n' in text
        assert 'trellis_shard_members{component="recommender"} 2\n' in text
        assert 'trellis_shard_changes_total{component="recommender"}' in text

    cluster.run(play)
