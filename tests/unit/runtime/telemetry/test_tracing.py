"""Passes, reconciles and reviews as traces in a collector; without an endpoint nothing is traced or imported."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable

import pytest

from support.controllers.recommender import World as RecommenderWorld
from support.otlp_collector import Collector, collecting
from trellis.base.errors import InternalError, InvalidInput
from trellis.runtime.settings.loader import from_environment, from_flags, load_settings
from trellis.runtime.telemetry.health_server import HealthSettings
from trellis.runtime.telemetry.tracing import (
    NOT_TRACED,
    TracedWork,
    count_traced_write,
    current_trace,
    exporting_traces,
    is_tracing,
    trace_passes,
    traced,
)

STEPS = [
    *("LoadVPAs", "LoadMetrics", "LoadPods", "DeleteRemovedPods"),
    *("UpdateVPAs", "MaintainCheckpoints", "GarbageCollect"),
]


def collected(work: Callable[[], object]) -> Collector:
    """The spans that some work leads to."""
    with collecting() as collector:
        with exporting_traces(collector.url):
            work()
        return collector


def test_a_pass_of_the_recommender_is_a_span_with_a_child_for_each_step() -> None:
    world = RecommenderWorld()
    world.add_workload("web")

    async def play() -> None:
        await world.passes(2)

    collector = collected(lambda: world.run(play))
    assert set(collector.paths) == {"/v1/traces"}
    first, second = collector.named("recommender pass")
    steps = collector.children(first)
    assert [span.name for span in steps] == STEPS
    assert first.trace != second.trace
    assert first.parent == ""
    assert first.attributes == {
        "trellis.component": "recommender",
        "trellis.outcome": "completed",
        "trellis.vpas": 1,
        "trellis.samples": 2,
        "trellis.statuses": 1,
    }
    assert first.resource["service.name"] == "trellis"
    assert all(first.began <= span.began <= span.ended <= first.ended for span in steps)


def test_a_pass_that_fails_is_an_error_and_one_that_is_skipped_says_so() -> None:
    async def fail() -> None:
        raise InternalError("the well is dry")

    async def skip() -> None:
        return None

    async def play() -> None:
        await trace_passes("nodes", skip)()
        with pytest.raises(InternalError):
            await trace_passes("nodes", fail)()

    skipped, failed = collected(lambda: asyncio.run(play())).named("nodes pass")
    assert (skipped.attributes["trellis.outcome"], skipped.is_error) == ("skipped", False)
    assert (failed.attributes["trellis.outcome"], failed.is_error) == ("failed", True)


def test_a_pass_counts_the_writes_of_its_component_by_result() -> None:
    async def write() -> None:
        for component, result in (("nodes", "Applied"), ("nodes", "Applied"), ("nodes", "Conflict"), ("hvpa", "Gone")):
            count_traced_write(component, result)
        current_trace().complete()

    async def play() -> None:
        count_traced_write("nodes", "Applied")
        await trace_passes("nodes", write)()

    [span] = collected(lambda: asyncio.run(play())).named("nodes pass")
    assert {name: value for name, value in span.attributes.items() if "writes" in name} == {
        "trellis.writes.applied": 2,
        "trellis.writes.conflict": 1,
    }


def test_nested_work_has_the_trace_of_its_own_and_then_that_around_it() -> None:
    def work() -> None:
        with traced(TracedWork.RECONCILE, "hvpa", namespace="shop", name="web") as outer:
            assert current_trace() is outer
            with traced(TracedWork.RECONCILE, "hvpa", namespace="shop", name="other") as inner:
                assert current_trace() is inner
            assert current_trace() is outer
        assert current_trace() is NOT_TRACED

    spans = collected(work).named("hvpa reconcile")
    assert [span.attributes["trellis.name"] for span in spans] == ["other", "web"]


def test_without_an_endpoint_nothing_is_traced() -> None:
    with exporting_traces(""), traced(TracedWork.PASS, "updater") as trace:
        assert trace is NOT_TRACED
        assert not is_tracing()
        trace.step("view")


def test_without_an_endpoint_opentelemetry_is_not_imported() -> None:
    code = (
        "import sys, trellis.cli.process.catalog as catalog\n"
        "types = catalog.import_all_settings()\n"
        "[catalog.CATALOG[name].manage(types[name]()) for name in types]\n"
        "from trellis.runtime.telemetry.tracing import exporting_traces\n"
        "with exporting_traces(''): pass\n"
        "assert not [name for name in sys.modules if name.startswith(('opentelemetry', 'google.protobuf', 'requests'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_endpoint_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "trellis.runtime.telemetry.otlp_traces", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with (
        pytest.raises(InvalidInput, match=r"pip install 'trellis-autoscaler\[tracing\]'"),
        exporting_traces("http://x:4318"),
    ):
        pass


def test_a_collector_that_does_not_answer_does_not_disturb_the_work() -> None:
    with collecting() as collector:
        url = collector.url
    with exporting_traces(url), traced(TracedWork.PASS, "updater") as trace:
        trace.complete()
    assert not is_tracing()


def test_the_endpoint_is_a_flag_or_the_variable_of_opentelemetry() -> None:
    flags = from_flags(HealthSettings, {"tracing_endpoint": "http://collector:4318"})
    assert load_settings(HealthSettings, flags).settings.tracing_endpoint == "http://collector:4318"
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector"}
    loaded = load_settings(HealthSettings, from_environment(HealthSettings, environment))
    assert loaded.settings.tracing_endpoint == "https://collector"
    with pytest.raises(InvalidInput, match="must be a URL"):
        load_settings(HealthSettings, from_flags(HealthSettings, {"tracing_endpoint": "collector:4317"}))
