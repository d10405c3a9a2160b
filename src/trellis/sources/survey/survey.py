"""What do workloads need that nobody autoscales yet? Everything that is there, what it used, and what follows.

Namespaces are read one after the other. One that cannot be read is named, and the others go on; what has been read of
those that are done outlives an interruption, if there is a file for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from trellis.base.errors import PrometheusError, PrometheusUnreachable
from trellis.core.advice.asked import Asked
from trellis.core.advice.choice import Choice
from trellis.core.advice.counting import NamespaceUsage
from trellis.core.advice.estimating import estimated
from trellis.core.advice.kept import KeptNamespace
from trellis.core.advice.present import Present
from trellis.core.advice.surveyed import Effort, Surveyed, SurveyedWorkload
from trellis.core.advice.totals import TotalsCounter
from trellis.core.advice.workloads import Found, find_workloads
from trellis.core.hvpa.suggesting.unsuited import is_scaled
from trellis.core.model.dump_lines import Missing
from trellis.core.model.ooms import OomKill
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.history import Times
from trellis.sources.prometheus.settings import PrometheusSettings
from trellis.sources.survey.keeping import Keeping
from trellis.sources.survey.kube_state import KubeState
from trellis.sources.survey.usage import UsageProgress, read_usage

USAGE: Final = "usage"
_STOPPED: Final = "the survey was stopped before"
# A Prometheus that is gone is not waited for once per namespace.
_MOST_UNREACHABLE: Final = 2


class SurveyProgress(msgspec.Struct, frozen=True):
    """How far a survey is: the namespace at hand, how many are done of how many, in hundredths, and the samples."""

    namespace: str
    done: float
    total: int
    samples: int


Tell: TypeAlias = Callable[[SurveyProgress], None]


class Survey:
    """One look at everything that is asked about."""

    def __init__(
        self,
        client: PrometheusClient,
        settings: PrometheusSettings,
        choice: Choice,
        asked: Asked,
        *,
        keeping: Keeping,
        tell: Tell = lambda _progress: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._settings = settings
        self._choice = choice
        self._asked = asked
        self._keeping = keeping
        self._tell = tell
        self._stop = stop
        self._now = keeping.time
        self._missing: list[Missing] = []
        self._workloads: list[SurveyedWorkload] = []
        self._samples = self._series = 0

    async def take(self, present: Present | None = None) -> Surveyed:
        """Of what there is, or of what Prometheus says there is; raises `PrometheusError` if it says nothing at all."""
        clock = asyncio.get_running_loop().time
        began = clock()
        state = KubeState(self._client, self._settings, self._now)
        known = await state.present(self._choice) if present is None else await _with_past(present, state)
        found = await asyncio.to_thread(find_workloads, known, self._choice)
        self._missing += known.missing
        await self._all(found)
        return Surveyed(
            time=self._now,
            source=self._settings.prometheus_address,
            recommender=self._asked.recommender.name,
            workloads=tuple(self._workloads),
            values=self._asked.values,
            missing=tuple(self._missing),
            notes=tuple(self._notes()),
            effort=Effort(
                queries=self._client.queries,
                repeated=self._client.attempts - self._client.queries,
                samples=self._samples,
                series=self._series,
                one_by_one=2 * sum(len(each.containers) for each in self._workloads),
                seconds=clock() - began,
            ),
            largest_node=known.largest_node,
        )

    async def _all(self, found: Found) -> None:
        """Namespace by namespace; of those that cannot be read, what is known without their usage."""
        unreachable = 0
        why = ""
        for done, namespace in enumerate(found.namespaces):
            read = KeptNamespace(namespace, ())
            if why := why or (_STOPPED if self._stop() else ""):
                self._missing.append(Missing(USAGE, namespace, why))
            else:
                try:
                    read = self._keeping.known(namespace) or await self._one(namespace, found, done)
                    unreachable = 0
                except PrometheusError as error:
                    self._missing.append(Missing(USAGE, namespace, str(error)))
                    unreachable += isinstance(error, PrometheusUnreachable)
                    why = str(error) if unreachable >= _MOST_UNREACHABLE else ""
            await self._estimate(read, found)
        total = len(found.namespaces)
        self._tell(SurveyProgress("", total, total, self._samples))

    async def _estimate(self, read: KeptNamespace, found: Found) -> None:
        """Only what a recommender makes of the rows is kept of them: they may be many."""
        workloads = {(read.namespace, key): each for key, each in found.of(read.namespace).items()}
        result = await asyncio.to_thread(estimated, workloads, read.rows, self._asked, self._now)
        self._workloads += (
            msgspec.structs.replace(each, totals=read.totals.get(key))
            for (_, key), each in zip(workloads, result.workloads, strict=True)
        )
        self._missing += result.missing
        self._samples += read.samples
        self._series += read.series

    async def _one(self, namespace: str, found: Found, done: int) -> KeptNamespace:
        pods = {pod: key for (where, pod), key in found.pods.items() if where == namespace}
        workloads = found.of(namespace)
        kills: list[OomKill] = [kill for kill in found.kills if kill.namespace == namespace]
        counting = NamespaceUsage(
            namespace,
            workloads,
            pods,
            self._asked,
            kills,
            totals=self._totals(workloads) if self._asked.totals else None,
        )
        before = self._samples
        total = len(found.namespaces)

        def report(each: UsageProgress) -> None:
            self._tell(SurveyProgress(namespace, done + each.done / each.total, total, before + each.samples))

        report(UsageProgress(0, 1, 0))
        containers = sum(each.pods * len(each.containers) for each in workloads.values())
        read = await read_usage(
            self._client,
            self._settings,
            counting,
            namespace,
            containers=containers,
            now=self._now,
            report=report,
        )
        await self._keeping.keep(read)
        return read

    def _totals(self, workloads: Mapping[str, SurveyedWorkload]) -> TotalsCounter:
        times = Times.until(self._now, self._settings)
        scaled = [key for key, each in workloads.items() if is_scaled(each.kind, each.api_version)]
        return TotalsCounter(scaled, times.start, times.step, times.count)

    def _lacks_cpu(self) -> bool:
        """Whether memory is known of some container, and CPU of none."""
        highest = [each.highest for one in self._workloads for each in one.containers]
        return any(each.memory > 0 for each in highest) and not any(each.cpu >= 0 for each in highest)

    def _notes(self) -> Iterator[str]:
        settings = self._settings
        if not self._workloads:
            yield "there are no workloads that were asked about"
        elif not self._samples and not any(each.what == USAGE for each in self._missing):
            yield (
                f"Prometheus has no usage of them: it was asked for {settings.history_memory_metric} and "
                f"{settings.history_cpu_metric} with the labels {settings.container_pod_name_label} and "
                f"{settings.container_name_label}"
            )
        elif self._lacks_cpu():
            yield (
                f"Prometheus has memory and no CPU of them: {settings.history_cpu_metric} needs two samples within "
                f"{settings.history_resolution}; if it is scraped less often, take a longer --resolution"
            )


async def _with_past(present: Present, state: KubeState) -> Present:
    """What there is, and whose the pods were that are gone, if Prometheus knows."""
    try:
        gone, series = await state.gone(present.namespaces)
        kills, missing = await state.kills(present.namespaces)
    except PrometheusError as error:
        unknown = Missing("pods that are gone", "", str(error))
        return msgspec.structs.replace(present, missing=(*present.missing, unknown))
    names = {(pod.metadata.namespace, pod.metadata.name) for pod in present.pods}
    return msgspec.structs.replace(
        present,
        makers=series.makers(),
        gone=[pod for pod in gone if (pod.metadata.namespace, pod.metadata.name) not in names],
        kills=kills,
        missing=(*present.missing, *missing),
    )
