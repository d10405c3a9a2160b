"""Series from Prometheus: one for each container of each pod, of the selected namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from aiohttp import web

from support.local_server import serving
from support.prometheus.server import Container, ModelPrometheus, error
from trellis.base.errors import InvalidSeries
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.settings import PrometheusSettings
from trellis.sources.series.prometheus import read_prometheus
from trellis.sources.series.tables import LoadedSeries

NOW = 1_785_585_600.0
MINUTE = 60.0
MEMORY = "container_memory_working_set_bytes"
APP: Container = ("team-a", "web-1", "app")
DB: Container = ("data", "db-0", "postgres")


def served() -> ModelPrometheus:
    server = ModelPrometheus()
    times = [NOW - MINUTE * number for number in range(4)]
    for container, cores in ((APP, 0.5), (DB, 2.0)):
        server.put("cpu", container, dict.fromkeys(times, cores))
        server.put("memory", container, dict.fromkeys(times[:3], 1e9))
    server.raw[f"group by (namespace) (last_over_time({MEMORY}[3m]))"] = known_namespaces("team-a", "data")
    return server


def known_namespaces(*names: str) -> object:
    result = [{"metric": {"namespace": name}, "value": [NOW, "1"]} for name in names]
    return {"resultType": "vector", "result": result}


def read(server: ModelPrometheus, patterns: Sequence[str] = ()) -> LoadedSeries:
    async def main() -> LoadedSeries:
        async with serving(server) as url:
            settings = PrometheusSettings(prometheus_address=url, history_length="3m", history_resolution="1m")
            async with PrometheusClient(settings, environment={}) as client:
                return await read_prometheus(client, settings, patterns, NOW)

    return asyncio.run(main())


def test_every_container_of_every_pod_is_a_series() -> None:
    result = read(served())
    assert [item.name for item in result.series] == ["data/db-0/postgres", "team-a/web-1/app"]
    app = result.series[1]
    assert app.times.tolist() == [NOW - 3 * MINUTE, NOW - 2 * MINUTE, NOW - MINUTE, NOW]
    assert app.cpu.tolist() == [0.5] * 4
    assert app.interval == MINUTE


def test_a_pattern_chooses_namespaces() -> None:
    assert [item.name for item in read(served(), ["team-*"]).series] == ["team-a/web-1/app"]


def test_a_namespace_without_samples_at_this_moment_is_found_by_its_past() -> None:
    server = served()
    server.raw[f"group by (namespace) ({MEMORY})"] = known_namespaces("data")
    assert [item.name for item in read(server, ["team-*"]).series] == ["team-a/web-1/app"]


def test_current_namespaces_are_used_where_a_query_of_the_past_is_too_large() -> None:
    class Limited(ModelPrometheus):
        async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
            form = await request.post()
            if "last_over_time" in str(form["query"]):
                return error(422, "execution", "query processing would load too many samples into memory")
            return await super().__call__(request)

    server = Limited()
    server.usage = served().usage
    server.raw[f"group by (namespace) ({MEMORY})"] = known_namespaces("data")
    assert [item.name for item in read(server, ["*"]).series] == ["data/db-0/postgres"]


def test_a_pattern_without_matches_and_a_prometheus_without_usage_are_reported() -> None:
    with pytest.raises(InvalidSeries, match="has no containers in a namespace that matches nobody-\\*"):
        read(served(), ["nobody-*"])
    with pytest.raises(InvalidSeries, match="has no containers; check the names of metrics and labels, and the job"):
        read(ModelPrometheus())


def test_a_container_with_one_sample_is_skipped_and_reported() -> None:
    server = served()
    server.put("cpu", ("data", "new-0", "app"), {NOW: 1.0})
    result = read(server)
    assert len(result.series) == 2
    assert "series data/new-0/app has fewer than two samples" in str(result.problems[0])
