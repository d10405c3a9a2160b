"""Measures advice for a cluster from Prometheus: time, memory, queries and samples.

Once with a real Prometheus that holds two weeks of 200 workloads, and once with a model of one that answers at once for
1,000, so that what is measured is ours. A survey runs in a process of its own. Beside it stands how many queries one
for each container and resource would have been.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web

from bench.measurement import CannotMeasure, Row, python
from bench.process_usage import peak_megabytes
from bench.recommender.generated_prometheus import Generated, openmetrics
from testbed.errors import HarnessError
from testbed.prometheus import serving
from trellis.core.advice.survey.scope import WorkloadFilter
from trellis.core.advice.survey.usage import SurveySettings
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.runtime.settings.loader import WrittenValue
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.survey.resume_file import ResumeFile
from trellis.sources.survey.settings import survey_settings
from trellis.sources.survey.survey import PrometheusSurvey

_DAYS = 14
_BAR_SECONDS, _BAR_MEGABYTES = 60.0, 500.0
_UNTIL = 1_790_035_200


def measure() -> list[Row]:
    return [*_real(Generated(200, 20, _DAYS, _UNTIL)), *_model(Generated(1_000, 50, _DAYS, _UNTIL))]


def _real(of: Generated) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            with serving(Path(folder), openmetrics(of), block=f"{24 * _DAYS}h") as server:
                result = _measured(server.url, of)
        except HarnessError as error:
            raise CannotMeasure(str(error)) from error
    yield from _rows("recommend from Prometheus", of, result)


def _model(of: Generated) -> Iterator[Row]:
    with _answering(of) as url:
        result = _measured(url, of)
    yield from _rows("recommend from a model of Prometheus", of, result)


def _rows(title: str, of: Generated, figures: dict[str, float]) -> Iterator[Row]:
    if figures["workloads"] != of.workloads or figures["estimates"] != of.containers:
        raise CannotMeasure(f"{figures['estimates']:.0f} estimates for {figures['workloads']:.0f} workloads")
    what = f"{title}: {of.workloads:,} workloads x 2 containers x {_DAYS} d"
    seconds, megabytes = figures["seconds"], figures["megabytes"]
    yield Row(what, f"{seconds:.1f} s", bar=f"<= {_BAR_SECONDS:.0f} s", met=seconds <= _BAR_SECONDS)
    yield Row(
        f"{what}, memory", f"{megabytes:.0f} MB", bar=f"<= {_BAR_MEGABYTES:.0f} MB", met=megabytes <= _BAR_MEGABYTES
    )
    queries, alone = figures["queries"], figures["one_by_one"]
    most = figures["most_queries"]
    yield Row(
        f"{what}, queries",
        f"{queries:,.0f}",
        f"{alone:,.0f}",
        f"{alone / queries:.1f}x",
        f"<= {most:,.0f}",
        queries <= most,
    )
    yield Row(f"{what}, samples", f"{figures['samples'] / 1e6:.1f} million")


def _measured(url: str, of: Generated) -> dict[str, float]:
    document: dict[str, float] = json.loads(python("-m", "bench.recommender.recommend_prometheus", url, str(of.until)))
    # One per namespace, resource and day, and a few about the whole.
    document["most_queries"] = 2 * of.namespaces * _DAYS + 10
    return document


async def surveyed(url: str, now: float) -> dict[str, float]:
    """A survey of all there is, and what it took."""
    settings = survey_settings({"prometheus-address": WrittenValue(url, "the measurement")})
    asked = SurveySettings(create_built_in_recommenders()["default"])
    began = time.perf_counter()
    async with PrometheusClient(settings, environment={}) as client:
        survey = PrometheusSurvey(client, settings, WorkloadFilter(), asked, resume_file=ResumeFile(now))
        result = await survey.run()
    seconds = time.perf_counter() - began
    if result.missing:
        raise CannotMeasure(str(result.missing[0]))
    targets = [container.estimate.target.cpu for workload in result.workloads for container in workload.containers]
    return {
        "seconds": seconds,
        "megabytes": peak_megabytes(os.getpid()),
        "queries": result.effort.queries,
        "one_by_one": result.effort.queries_per_container,
        "samples": result.effort.samples,
        "workloads": len(result.workloads),
        "estimates": sum(target > 0 for target in targets),
    }


@contextmanager
def _answering(of: Generated) -> Iterator[str]:
    """A server with the same cluster, whose containers all use the same at a time."""
    loop = asyncio.new_event_loop()
    ready: list[int] = []
    started = threading.Event()

    async def begin() -> None:
        runner = web.ServerRunner(web.Server(_Answers(of)))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ready.append(runner.addresses[0][1])
        started.set()

    def work() -> None:
        loop.run_until_complete(begin())
        loop.run_forever()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    started.wait()
    try:
        yield f"http://127.0.0.1:{ready[0]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


class _Answers:
    """Answers what a survey asks, out of what is generated."""

    def __init__(self, of: Generated) -> None:
        small = Generated(of.workloads, of.namespaces, 0, of.until)
        self._state = [_read(line) for text in openmetrics(small) for line in text.splitlines() if line[0] != "#"]
        self._pods: dict[str, list[str]] = {}
        for namespace, _, pod in of.pods():
            self._pods.setdefault(namespace, []).append(pod)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        form = await request.post()
        query = str(form.get("query", ""))
        if request.path.endswith("/series"):
            body = '{"status":"success","data":[]}'
        elif request.path.endswith("/query_range"):
            start, end, step = (float(str(form[name])) for name in ("start", "end", "step"))
            body = self._range(query, start, round((end - start) / step) + 1, step)
        else:
            body = self._now(query)
        return web.Response(body=body.encode(), content_type="application/json")

    def _now(self, query: str) -> str:
        if query.startswith("group by"):
            result = [f'{{"metric":{{"namespace":"{name}"}},"value":[0,"1"]}}' for name in self._pods]
        else:
            wanted = "kube_pod_status_phase" if "== 1" in query else "kube_"
            result = [
                f'{{"metric":{json.dumps(labels)},"value":[0,"{value}"]}}'
                for labels, value in self._state
                if labels["__name__"].startswith(wanted) and f'"{labels["namespace"]}"' in _quoted(query)
            ]
        return f'{{"status":"success","data":{{"resultType":"vector","result":[{",".join(result)}]}}}}'

    def _range(self, query: str, start: float, steps: int, step: float) -> str:
        namespace = query.split('namespace="')[1].split('"', maxsplit=1)[0]
        cpu = "rate(" in query
        usual = (
            f"{0.1 + 0.01 * (number % 7)}" if cpu else str(10**8 + 10**5 * (number % 97)) for number in range(steps)
        )
        values = ",".join(f'[{start + number * step:.3f},"{value}"]' for number, value in enumerate(usual))
        result = [
            f'{{"metric":{{"namespace":"{namespace}","pod":"{pod}","container":"{container}"}},"values":[{values}]}}'
            for pod in self._pods[namespace]
            for container in ("app", "proxy")
        ]
        return f'{{"status":"success","data":{{"resultType":"matrix","result":[{",".join(result)}]}}}}'


def _quoted(query: str) -> set[str]:
    """The names in a query that are namespaces, each in quotes."""
    return {f'"{name}"' for part in query.split('"')[1::2] for name in part.split("|")}


def _read(line: str) -> tuple[dict[str, str], str]:
    series, value, _ = line.rsplit(" ", 2)
    name, _, labels = series.partition("{")
    pairs = [pair.split("=", 1) for pair in labels.rstrip("}").split(",")]
    return {"__name__": name, **{key: text.strip('"') for key, text in pairs}}, value


if __name__ == "__main__":
    print(json.dumps(asyncio.run(surveyed(sys.argv[1], float(sys.argv[2])))))
