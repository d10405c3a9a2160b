"""What a real Prometheus remembers is read back as it was written: history, the newest samples, labels of pods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from testbed.prometheus import Prometheus, serving
from trellis.base.errors import PrometheusLimitExceeded, PrometheusRefused, PrometheusUnreachable
from trellis.core.usage.samples import Samples
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.history import read_history
from trellis.sources.prometheus.labels import query_pod_labels
from trellis.sources.prometheus.live_usage import read_newest
from trellis.sources.prometheus.settings import PrometheusSettings

T = TypeVar("T")
Container = tuple[str, str, str]
Start = Callable[..., Prometheus]

HOUR = 3600
SCRAPE = 300
NOW = 1_785_585_600  # 2026-08-01T12:00:00Z
WEEK = range(-8 * 24, 1)
DAY = range(-24, 1)
APP: Container = ("shop", "web-1", "app")
DB: Container = ("data", "db-0", "postgres")


def cores(container: Container, hour: int) -> float:
    """The rate of CPU in the hour that ends at this one."""
    return 0.25 + hour % 24 / 16 if container == APP else 2.0


def memory(container: Container, hour: int) -> float:
    return 1e8 + 1e6 * (hour % 24) if container == APP else 3e9


def scraped(container: Container, hours: range) -> Iterator[tuple[int, float, float]]:
    """Time, seconds of CPU and bytes of memory at every scrape. The counter has run for long before."""
    seconds = 1e6
    for time in range(NOW + hours[0] * HOUR - HOUR, NOW + 1, SCRAPE):
        ends = -((NOW - time) // HOUR)  # the hour in which this scrape lies ends here
        seconds += cores(container, ends) * SCRAPE
        yield time, seconds, memory(container, ends)


def labelled(container: Container, identity: str = "/kubepods/one", job: str = "kubernetes-cadvisor") -> str:
    namespace, pod, name = container
    return f'{{job="{job}",namespace="{namespace}",pod_name="{pod}",name="{name}",id="{identity}",image="x"}}'


def openmetrics(hours: range) -> str:
    """Two containers, one of which was restarted halfway, and a good deal that is none of our business."""
    counters, gauges = [], []
    others = [
        labelled(("shop", "web-1", "POD")),
        labelled(("shop", "web-1", "")),
        labelled(("shop", "", "app")),
        labelled(("shop", "web-1", "app"), job="something-else"),
    ]
    for container in (APP, DB):
        middle = NOW + hours[len(hours) // 2] * HOUR
        for time, seconds, used in scraped(container, hours):
            restarted = container == DB and time > middle
            series = labelled(container, "/kubepods/two" if restarted else "/kubepods/one")
            counters.append((f"container_cpu_usage_seconds_total{series}", time, seconds))
            gauges.append((f"container_memory_working_set_bytes{series}", time, used))
    for series in others:
        counters += [(f"container_cpu_usage_seconds_total{series}", time, 1e9 + time) for time in (NOW - 600, NOW)]
        gauges += [(f"container_memory_working_set_bytes{series}", time, 9e12) for time in (NOW - 600, NOW)]
    pods = {"web-1": 'pod_label_app="web"', "web-0": 'pod_label_app="gone"'}
    labels = [
        (f'up{{job="kubernetes-pods",kubernetes_namespace="shop",kubernetes_pod_name="{pod}",{label}}}', time, 1)
        for (pod, label), time in zip(pods.items(), (NOW - 60, NOW - 3 * 24 * HOUR), strict=True)
    ]
    text = []
    for family, kind, samples in (
        ("container_cpu_usage_seconds", "counter", counters),
        ("container_memory_working_set_bytes", "gauge", gauges),
        ("up", "gauge", labels),
    ):
        text.append(f"# TYPE {family} {kind}")
        text += [f"{series} {value} {time}" for series, time, value in sorted(samples)]
    return "\n".join(text) + "\n"


def using(server: Prometheus, work: Callable[[PrometheusClient], Awaitable[T]], **settings: Any) -> T:
    async def main() -> T:
        made = PrometheusSettings(prometheus_address=server.url, **settings)
        async with PrometheusClient(made, environment={}) as client:
            return await work(client)

    return asyncio.run(main())


async def everything(client: PrometheusClient, **settings: Any) -> Samples:
    asked = PrometheusSettings(**settings)
    return Samples.concatenate([batch async for batch in read_history(client, asked, ["shop", "data"], NOW)])


def by_container(samples: Samples) -> dict[Container, list[tuple[int, float, float]]]:
    rows: dict[Container, list[tuple[int, float, float]]] = {}
    for name, time, cpu, used in zip(
        zip(samples.namespaces, samples.pods, samples.containers, strict=True),
        samples.times.tolist(),
        samples.cpu.tolist(),
        samples.memory.tolist(),
        strict=True,
    ):
        rows.setdefault(name, []).append((round((time - NOW) / HOUR), cpu, used))
    return rows


def check_history(samples: Samples, hours: range) -> None:
    rows = by_container(samples)
    assert rows.keys() == {APP, DB}
    for container, row in rows.items():
        assert [hour for hour, _, _ in row] == list(hours)
        assert [used for _, _, used in row] == [memory(container, hour) for hour in hours]
    assert [cpu for _, cpu, _ in rows[APP]] == pytest.approx([cores(APP, hour) for hour in hours])
    # A restart in the middle of a window leaves Prometheus with parts of two counters.
    assert [cpu for _, cpu, _ in rows[DB]] == pytest.approx([cores(DB, hour) for hour in hours], rel=0.1)


@pytest.fixture(scope="module")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that knows eight days."""
    with serving(tmp_path_factory.mktemp("prometheus"), openmetrics(WEEK)) as server:
        yield server


def test_eight_days_of_history_are_what_was_written(remembering: Prometheus) -> None:
    check_history(using(remembering, everything), WEEK)


def test_queries_are_split_until_prometheus_accepts_them(prometheus: Start) -> None:
    server = prometheus(openmetrics(DAY), "--query.max-samples=40")
    with pytest.raises(PrometheusLimitExceeded, match="too many samples"):
        using(server, lambda client: client.query_range("container_memory_working_set_bytes", NOW - 3600, NOW, 60))
    check_history(using(server, lambda client: everything(client, history_length="1d")), DAY)


def test_the_newest_sample_of_each_container_is_read_with_its_time(remembering: Prometheus) -> None:
    asked = PrometheusSettings(prometheus_live_window="15m")
    samples = using(remembering, lambda client: read_newest(client, asked, ["shop", "data"], NOW + 90))
    assert by_container(samples).keys() == {APP, DB}
    assert set(samples.times.tolist()) == {NOW}
    for container, [(_, cpu, used)] in by_container(samples).items():
        assert cpu == pytest.approx(cores(container, 0))
        assert used == memory(container, 0)


@pytest.mark.parametrize(("span", "pods"), [("", {"web-1": "web"}), ("[8d]", {"web-1": "web", "web-0": "gone"})])
def test_labels_of_pods_are_read_from_a_vector_and_from_a_range(
    remembering: Prometheus, span: str, pods: dict[str, str]
) -> None:
    asked = PrometheusSettings(metric_for_pod_labels=PrometheusSettings().metric_for_pod_labels + span)
    result = using(remembering, lambda client: query_pod_labels(client, asked, NOW))
    assert result == {("shop", pod): {"app": label} for pod, label in pods.items()}


def test_prometheus_says_itself_what_is_wrong_with_a_query_and_a_dead_one_is_named(prometheus: Start) -> None:
    server = prometheus("")
    with pytest.raises(PrometheusRefused, match=r"answers 400: .*parse error"):
        using(server, lambda client: client.query("rate(", NOW))
    assert len(using(server, everything)) == 0
    server.process.kill()
    with pytest.raises(PrometheusUnreachable, match="cannot be reached: Connection refused"):
        using(server, everything, prometheus_retries=0)
