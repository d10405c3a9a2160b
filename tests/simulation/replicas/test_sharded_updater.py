"""Updaters that share namespaces: each disrupts pods of its own namespaces, and budgets of the cluster hold for all."""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from support.api_server.server import Document
from support.controllers.shards import NAMESPACES, ShardedCluster, ShardReplica, vpa_path
from support.controllers.updater import recommendation
from support.controllers.world import discovery
from support.replicas import wait_until
from trellis.base.json_lines import FORMAT_VERSION, HEADER, RecordingHeader, read_lines
from trellis.base.times import format_time
from trellis.controllers.updater.process import updater_spec
from trellis.controllers.updater.settings import UpdaterSettings
from trellis.core.recording.format import UPDATER
from trellis.kube.transport.requests import Request
from trellis.runtime.recorder import Recorder
from trellis.runtime.settings.loader import from_flags, load_settings
from trellis.sim.replay.updater import replay_updater
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

HOUR = 3600.0
SERVED = discovery({"v1": [("pods", "Pod"), ("pods/resize", "Pod")]}) | {"/version": {"major": "1", "minor": "36"}}


class Updaters(ShardedCluster):
    """The cluster, its updaters, and what they evicted. An evicted pod is replaced by one of the recommended size."""

    def __init__(self, **flags: str) -> None:
        super().__init__()
        self.fault = self._respond
        self.evictions: list[tuple[float, str]] = []
        given = {"shard_namespaces": "true", "use_admission_controller_status": "false"} | flags
        self._settings = load_settings(UpdaterSettings, from_flags(UpdaterSettings, given)).settings
        self.recordings: dict[str, io.BytesIO] = {}
        self._successors = 0

    def start(self, name: str) -> ShardReplica:
        self.recordings[name] = io.BytesIO()
        recorder = Recorder(self.recordings[name])
        recorder.write(HEADER, RecordingHeader(FORMAT_VERSION, UPDATER))
        return ShardReplica(self, name, lambda _metrics: updater_spec(self._settings), self._settings, recorder)

    def recommend(self, cpu: str) -> None:
        """A new recommendation for all workloads."""
        for namespace in NAMESPACES:
            document = self.server.objects[vpa_path(namespace)]
            policy = {"updatePolicy": {"updateMode": "Recreate"}}
            spec = {**document["spec"], **policy}
            self.server.put(vpa_path(namespace), {**document, "spec": spec, "status": recommendation(cpu)})

    def is_recommended(self, cpu: str) -> bool:
        """Whether all pods have this size."""
        pods = [document for path, document in self.server.objects.items() if _is_pod(path)]
        return {pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in pods} == {cpu}

    def _respond(self, request: Request) -> ScriptedResponse | None:
        if request.path in SERVED:
            return json_response(SERVED[request.path])
        path, _, last = request.path.rpartition("/")
        if last != "eviction":
            return None
        pod = self.server.objects.get(path)
        if pod is None:
            return error_response(404, "NotFound")
        self.evictions.append((self.now(), path.split("/")[4]))
        ending = {**pod["metadata"], "deletionTimestamp": format_time(datetime.fromtimestamp(self.now(), UTC))}
        self.server.put(path, {**pod, "metadata": ending})
        asyncio.get_running_loop().call_later(1.0, self._replace, path, pod)
        return json_response({"kind": "Status"}, 201)

    def _replace(self, path: str, old: Document) -> None:
        self.server.delete(path)
        self._successors += 1
        namespace = path.split("/")[4]
        advice: dict[str, Any] = self.server.objects[vpa_path(namespace)]["status"]["recommendation"]
        cpu = advice["containerRecommendations"][0]["target"]["cpu"]
        resources = {"requests": {"cpu": cpu, "memory": "100Mi"}}
        spec = {**old["spec"], "containers": [{"name": "app", "resources": resources}]}
        metadata = {key: old["metadata"][key] for key in ("labels", "creationTimestamp", "ownerReferences")}
        status = {**old["status"], "containerStatuses": [{"name": "app", "resources": resources}]}
        document = {"metadata": metadata, "spec": spec, "status": status}
        self.server.put(f"/api/v1/namespaces/{namespace}/pods/web-{100 + self._successors}", document)


def _is_pod(path: str) -> bool:
    return path.startswith("/api/v1/") and "/pods/" in path


def covers_all(*replicas: ShardReplica) -> bool:
    """Whether each namespace has one of these replicas, and each replica has some."""
    servers = [[each.name for each in replicas if each.covers(namespace)] for namespace in NAMESPACES]
    return all(len(names) == 1 for names in servers) and len({names[0] for names in servers}) == len(replicas)


def test_pods_are_evicted_by_the_replica_of_their_namespace_while_replicas_come_and_go() -> None:
    cluster = Updaters()

    async def play() -> None:
        replicas = [cluster.start("a"), cluster.start("b"), cluster.start("c")]
        checking = asyncio.create_task(cluster.check_exclusive(replicas))
        await wait_until(lambda: covers_all(*replicas), most=30.0)
        cluster.recommend("500m")
        await wait_until(lambda: cluster.is_recommended("500m"), most=200.0)
        owners = {namespace: [each.name for each in replicas if each.covers(namespace)] for namespace in NAMESPACES}
        assert cluster.list_writers() == owners
        await replicas[0].kill()
        await wait_until(lambda: covers_all(*replicas[1:]), most=30.0)
        replicas.append(cluster.start("d"))
        await wait_until(lambda: covers_all(*replicas[1:]), most=30.0)
        changed = cluster.now()
        cluster.recommend("900m")
        await wait_until(lambda: cluster.is_recommended("900m"), most=200.0)
        owners = {namespace: [each.name for each in replicas[1:] if each.covers(namespace)] for namespace in NAMESPACES}
        assert cluster.list_writers(changed) == owners
        assert not checking.done(), checking.result()
        for replica in replicas[1:]:
            await replica.stop()

    cluster.run(play)
    assert len(cluster.evictions) == 2 * 2 * len(NAMESPACES)
    for recording in cluster.recordings.values():
        assert "shard" in {kind for kind, _ in read_lines(recording.getvalue())}
        for decision in replay_updater(read_lines(recording.getvalue())):
            assert decision.decided == decision.recorded


def test_the_hourly_budget_of_the_cluster_holds_for_all_replicas_together() -> None:
    cluster = Updaters(evictions_per_hour="10")

    async def play() -> None:
        replicas = [cluster.start(name) for name in "abc"]
        await wait_until(lambda: covers_all(*replicas), most=30.0)
        cluster.recommend("500m")
        await asyncio.sleep(HOUR - 100.0)
        # 4, 3 and 3: each replica has pods enough for its part.
        assert len(cluster.evictions) == 10
        writers = Counter(write.replica for write in cluster.writes if write.path.endswith("/eviction"))
        assert sorted(writers.values()) == [3, 3, 4]

    cluster.run(play)


def test_the_budget_of_a_replica_that_was_killed_goes_to_the_others() -> None:
    cluster = Updaters(evictions_per_hour="10")

    async def play() -> None:
        replicas = [cluster.start(name) for name in "ab"]
        await wait_until(lambda: covers_all(*replicas), most=30.0)
        await replicas[0].kill()
        await wait_until(lambda: covers_all(replicas[1]), most=30.0)
        cluster.recommend("500m")
        await asyncio.sleep(HOUR - 100.0)
        assert len(cluster.evictions) == 10

    cluster.run(play)


def test_the_rate_of_evictions_holds_for_all_replicas_together() -> None:
    cluster = Updaters(eviction_rate_limit="0.1")

    async def play() -> None:
        replicas = [cluster.start(name) for name in "ab"]
        await wait_until(lambda: covers_all(*replicas), most=30.0)
        began = cluster.now()
        cluster.recommend("500m")
        await asyncio.sleep(200.0)
        # One in ten seconds, and the burst of one pod that each replica has.
        assert 18 <= len([time for time, _ in cluster.evictions if time >= began]) <= 22

    cluster.run(play)


def test_a_replica_forgets_the_refusals_of_namespaces_that_others_serve() -> None:
    cluster = Updaters()
    refused: list[tuple[float, str]] = []
    respond = cluster.fault

    def refuse(request: Request) -> ScriptedResponse | None:
        if not request.path.endswith("/eviction"):
            return respond(request)
        refused.append((cluster.now(), request.path.split("/")[4]))
        return error_response(403, "Forbidden", "a policy refuses it")

    async def play() -> None:
        first = cluster.start("a")
        await wait_until(lambda: covers_all(first), most=30.0)
        cluster.fault = refuse
        cluster.recommend("500m")
        await asyncio.sleep(300.0)
        tries = Counter(namespace for _, namespace in refused)
        second = cluster.start("b")
        await wait_until(lambda: covers_all(first, second), most=30.0)
        taken = [namespace for namespace in NAMESPACES if second.covers(namespace)]
        await asyncio.sleep(30.0)
        cluster.fault = respond
        # The next holder tries at once what the last one had put off.
        later = Counter(namespace for _, namespace in refused)
        assert all(later[namespace] > tries[namespace] for namespace in taken)
        assert covers_all(first, second)

    cluster.run(play)


def test_evictions_of_a_namespace_are_never_at_the_same_time_in_two_replicas() -> None:
    cluster = Updaters()

    async def play() -> None:
        replicas = [cluster.start("a")]
        await wait_until(lambda: covers_all(*replicas), most=30.0)
        cluster.recommend("500m")
        for name in "bcd":
            replicas.append(cluster.start(name))
            await asyncio.sleep(3.0)
        await wait_until(lambda: cluster.is_recommended("500m"), most=200.0)

    cluster.run(play)
    for namespace in NAMESPACES:
        times = [time for time, name in cluster.evictions if name == namespace]
        # A pod is evicted once the one before is replaced: half of two may be away.
        assert all(later - earlier >= 1.0 for earlier, later in pairwise(times))
