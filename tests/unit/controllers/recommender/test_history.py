"""Backfilled history: which VPAs it belongs to, when it is restored, and the condition meanwhile."""

from __future__ import annotations

import asyncio

import msgspec
import numpy as np
import pytest

from support.controllers.recommender import World
from trellis.base.selectors import parse_selector
from trellis.core.cluster.governance import TargetClaim
from trellis.core.cluster.owners import TargetRef
from trellis.core.recommend.amounts import MEMORY
from trellis.core.recommend.backfill import BackfillRequest, NamespaceBackfill, UsageBackfill
from trellis.core.recommend.protocol import Rows
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.recommenders.seasonal import SeasonalRecommender
from trellis.core.usage.columns import RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples
from trellis.core.usage.settings import UsageSettings
from trellis.testing.estimates import request_estimates

HOUR = 3600.0
NOW = 1_760_000_000.0


def past(containers: frozenset[str] = frozenset()) -> BackfillRequest:
    target = TargetRef("shop", "apps/v1", "Deployment", "web")
    claim = TargetClaim("shop", "web", "uid", 0.0, target, parse_selector("app=web"))
    of = NamespaceBackfill((claim,), {"web-0": "web"}, {"web": containers} if containers else {})
    return BackfillRequest(frozenset({("shop", "web")}), {"shop": of}, UsageSettings(), {}, frozenset())


def hourly(pod: str, container: str, hours: int, cores: float, used: float) -> Samples:
    times = NOW - HOUR * np.arange(hours, 0, -1, dtype=np.float64)
    names = ["shop"] * hours, [pod] * hours, [container] * hours
    return Samples(*names, times, np.full(hours, cores), np.full(hours, used))


def test_usage_of_deleted_pods_is_added_to_their_vpa_and_that_of_other_pods_to_none() -> None:
    usage = UsageBackfill(past(), {("shop", "gone"): {"app": "web"}})
    for pod in ("web-0", "gone", "web-6d4b75cb6d-x5k2p", "database-0"):
        usage.ingest(hourly(pod, "app", 48, 0.5, 3e8), NOW)
    (row,) = usage.save_rows(NOW)
    assert row.key == RowKey("shop", "web", "app")
    assert row.count == 3 * 48
    assert list(row.cpu.weights) == [25]


def test_containers_that_no_pod_has_now_are_skipped() -> None:
    usage = UsageBackfill(past(frozenset({"app"})), {})
    usage.ingest(hourly("web-0", "app", 5, 0.5, 3e8), NOW)
    usage.ingest(hourly("web-0", "init", 5, 5.0, 3e9), NOW)
    assert [row.key.container for row in usage.save_rows(NOW)] == ["app"]


def test_backfilled_rows_count_the_same_in_the_model_that_restores_them() -> None:
    usage = UsageBackfill(past(), {})
    usage.ingest(hourly("web-0", "app", 48, 0.5, 3e8), NOW)
    model = UsageModel()
    model.restore_all(usage.save_rows(NOW))
    view = model.view()
    assert model.settings.cpu_half_life == view.cpu.half_life
    assert view.cpu.percentiles([0.9], view.rows)[0, 0] > 0.5


@pytest.mark.req("CR-25")
def test_a_cycle_of_memory_is_recognised_from_history_alone() -> None:
    usage = UsageBackfill(msgspec.structs.replace(past(), with_history=frozenset({("shop", "web")})), {})
    hours = 95 * 24
    samples = hourly("web-0", "app", hours, 0.1, 1e9)
    ago = (NOW - samples.times) / (24 * HOUR)
    peaks = np.where((5.0 - ago) % 30 < 1, 4e9, 1e9)  # every thirty days, the last one five days ago
    for day in range(95):
        part = slice(24 * day, 24 * day + 24)
        names = samples.namespaces[part], samples.pods[part], samples.containers[part]
        usage.ingest(Samples(*names, samples.times[part], samples.cpu[part], peaks[part]), NOW)
    model = UsageModel()
    model.restore_all(usage.save_rows(NOW))
    model.keep_history([("shop", "web")])
    rows = Rows(model.view(), np.ones(1))
    for days, needed in ((0.0, 1e9), (24.7, 4e9)):
        result = request_estimates(SeasonalRecommender(DefaultRecommender()), rows, now=NOW + days * 24 * HOUR)
        assert result.explanation["memory"] == ["cycle"]
        assert result.explanation["memory-cycle-days"] == pytest.approx([30.0])
        assert needed <= result.target[MEMORY, 0] < 1.5 * needed


def test_while_history_is_read_the_published_status_stays_with_a_condition() -> None:
    world = World("--storage=prometheus", "--prometheus-address=http://127.0.0.1:9", "--prometheus-retries=0")
    world.add_workload("web")
    stored = {"containerRecommendations": [{"containerName": "app", "target": {"cpu": "2", "memory": "1Gi"}}]}
    path = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/web"
    world.server.put(path, {**world.vpa("web"), "status": {"recommendation": stored}})
    reading = asyncio.Event()

    async def play() -> None:
        await world.passes(1)
        assert reading.is_set()
        assert world.target("web") == {"cpu": "587m", "memory": "380258472"}
        unavailable = world.condition("web", "HistoryUnavailable")
        assert unavailable is not None
        assert "127.0.0.1:9" in unavailable["message"]

    def see(request: object) -> None:
        conditions = world.vpa("web").get("status", {}).get("conditions", ())
        if any(condition["type"] == "FetchingHistory" for condition in conditions):
            reading.set()
            assert world.target("web") == {"cpu": "2", "memory": "1Gi"}

    world.fault = see
    world.run(play)


def test_checkpoints_of_two_containers_with_the_same_name_do_not_overwrite_each_other() -> None:
    world = World()
    for app in ("a", "a-b"):
        world.add_deployment(app)
        world.add_vpa(app)
    world.add_pod("a", "a-0", "b-c")
    world.add_pod("a-b", "a-b-0", "c")
    world.usage = {
        "a-0": {"b-c": {"cpu": "500m", "memory": "300Mi"}},
        "a-b-0": {"c": {"cpu": "100m", "memory": "300Mi"}},
    }

    async def play() -> None:
        await world.passes(3)
        stored = [doc for path, doc in world.server.objects.items() if "checkpoints/" in path]
        assert {(doc["spec"]["vpaObjectName"], doc["spec"]["containerName"]) for doc in stored} == {
            ("a", "b-c"),
            ("a-b", "c"),
        }
        assert {doc["status"]["totalSamplesCount"] for doc in stored} == {3}

    world.run(play)
