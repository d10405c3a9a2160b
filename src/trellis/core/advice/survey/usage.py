"""Counts the usage of a namespace's containers, batch by batch and oldest first.

Each namespace has a usage model of its own, which is dropped when its rows are known: pods of the past come by the
thousand, and memory must not grow with them.

The usage of whole workloads over time (all pods together) is counted only on request, and only for workloads that can
be scaled: it is the one thing that grows with the length of a history.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from trellis.core.advice.survey.model import ResourceAmount, SurveyedWorkload, WorkloadUsage
from trellis.core.advice.survey.usage_summaries import UsageSummaries, UsageSummary
from trellis.core.cluster.governance import TargetClaim
from trellis.core.cluster.oom_kill_detection import OomKill
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.past_pods import PastPods
from trellis.core.recommend.amounts import MILLICORES_PER_CORE
from trellis.core.recommend.parameters import ParameterValues
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.settings import PipelineSettings
from trellis.core.recommend.validation import needs_runs
from trellis.core.usage.checkpoints.format import SavedRow
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import MOST_BYTES, MOST_CORES, Measurements
from trellis.core.usage.settings import UsageSettings
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod


class SurveySettings(msgspec.Struct, frozen=True):
    """Settings of a survey: the recommender, and the settings of its usage model and of post-processing.

    `totals` is whether to sum what workloads used as a whole, time by time.
    """

    recommender: Recommender
    usage: UsageSettings = UsageSettings()
    pipeline: PipelineSettings = PipelineSettings()
    totals: bool = False

    @property
    def values(self) -> ParameterValues:
        """The default values of the recommender's parameters."""
        return {parameter.name: parameter.default for parameter in self.recommender.parameters}


class WorkloadUsageCounter:
    """Sums samples of workloads, by key and batch by batch. All pods at one time must be in one batch."""

    def __init__(self, workloads: Collection[str], start: float, step: float, count: int) -> None:
        self._workloads = frozenset(workloads)
        self._start = start
        self._step = step
        self._count = count
        self._numbers: dict[str, int] = {}
        self._pods: IntColumn = np.zeros((0, count), dtype=np.int64)
        self._sums: FloatColumn = np.zeros((2, 0, count))

    def add_batch(
        self, keys: Sequence[str], pods: Sequence[str], container_numbers: IntColumn, measured: Measurements
    ) -> None:
        """Add a batch: the workload and the pod of each container; then the samples."""
        numbers = np.array([self._number(key) if key in self._workloads else -1 for key in keys], dtype=np.int64)
        numbers_by_pod = {pod: number for number, pod in enumerate(dict.fromkeys(pods))}
        pod_numbers = np.array([numbers_by_pod[pod] for pod in pods], dtype=np.int64)
        row, sample_pods = numbers[container_numbers], pod_numbers[container_numbers]
        at = np.rint((measured.times - self._start) / self._step)
        is_within: BoolColumn = (row >= 0) & (at >= 0) & (at < self._count)
        at = np.where(is_within, at, 0).astype(np.int64)
        is_counted = np.zeros(len(row), dtype=np.bool_)
        for resource, (values, unit, most) in enumerate(
            ((measured.cpu, MILLICORES_PER_CORE, MOST_CORES), (measured.memory, 1.0, MOST_BYTES))
        ):
            is_valid: BoolColumn = is_within & (values >= 0) & (values <= most)
            is_first = np.isnan(self._sums[resource, row[is_valid], at[is_valid]])
            self._sums[resource, row[is_valid][is_first], at[is_valid][is_first]] = 0.0
            np.add.at(self._sums[resource], (row[is_valid], at[is_valid]), values[is_valid] * unit)
            is_counted |= is_valid
        places = (row[is_counted] * self._count + at[is_counted]) * max(1, len(numbers_by_pod)) + sample_pods[
            is_counted
        ]
        place = np.unique(places) // max(1, len(numbers_by_pod))
        np.add.at(self._pods.reshape(-1), place, 1)

    def read_usage(self) -> dict[str, WorkloadUsage]:
        """The summed usage by workload."""
        return {
            key: WorkloadUsage(self._start, self._step, self._pods[number].copy(), *self._sums[:, number].copy())
            for key, number in self._numbers.items()
        }

    def _number(self, key: str) -> int:
        number = self._numbers.setdefault(key, len(self._numbers))
        if number >= len(self._pods):
            added = max(8, number)
            self._pods = np.concatenate((self._pods, np.zeros((added, self._count), dtype=np.int64)))
            self._sums = np.concatenate((self._sums, np.full((2, added, self._count), np.nan)), axis=1)
        return number


class SurveyedUsage(msgspec.Struct, frozen=True):
    """The usage of one container of a workload: its row, its highest usage, its OOM kills, and a summary over time."""

    row: SavedRow
    highest: ResourceAmount = ResourceAmount()
    kills: int = 0
    last_kill: float = math.nan
    summary: UsageSummary | None = None


class NamespaceUsageCounter:
    """Counts samples of one namespace, and the out-of-memory kills there.

    `workloads` are by key, `pods` is whose those are that are known. `totals` sums up what they used as a whole,
    if requested. With a `span` of time, the usage of each container over it is summarised.
    """

    def __init__(
        self,
        namespace: str,
        workloads: Mapping[str, SurveyedWorkload],
        pods: Mapping[str, str],
        settings: SurveySettings,
        kills: Sequence[OomKill] = (),
        *,
        totals: WorkloadUsageCounter | None = None,
        span: tuple[float, float] | None = None,
    ) -> None:
        self._namespace = namespace
        self._totals = totals
        self._summaries = UsageSummaries(*span) if span is not None else None
        self._model = UsageModel(settings.usage)
        keys = [(namespace, key) for key in workloads]
        if settings.recommender.needs_history:
            self._model.keep_history(keys)
        if needs_runs(settings.recommender):
            self._model.keep_runs(keys)
        self._containers = {
            key: {container.name for container in workload.containers} for key, workload in workloads.items()
        }
        self._requests = {
            (key, container.name): container.request.memory
            for key, workload in workloads.items()
            for container in workload.containers
        }
        self._pods = PastPods([_build_claim(key, workload) for key, workload in workloads.items()], pods, {})
        self._tracked: dict[str, TrackedPod] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._highest = np.full((2, 0), np.nan)
        self._window = settings.usage.memory_window
        self._waiting = deque(sorted(kills, key=lambda kill: kill.time))
        self._kills: dict[int, list[float]] = {}

    @property
    def series(self) -> int:
        """The number of containers so far, counted for each pod."""
        return len(self._names)

    def add_batch(
        self, containers: Sequence[tuple[str, str]], container_numbers: IntColumn, measured: Measurements, now: float
    ) -> int:
        """Count a batch: containers of pods, of which one each sample is, and what was measured; how many were of use.

        The samples of a container are in the order of their times, in a batch and from batch to batch.
        """
        self._track_new_containers(containers, container_numbers, measured, now)
        names = [self._names[container] for container in containers]
        if self._totals is not None:
            keys = [self._tracked[name].vpa if name else "" for name in names]
            self._totals.add_batch(keys, [pod for pod, _ in containers], container_numbers, measured)
        slots = self._model.find_slots([self._namespace] * len(names), names, [name for _, name in containers])
        accepted = 0
        for selected in self._split_at_kills(measured.times):
            part = Measurements(measured.times[selected], measured.cpu[selected], measured.memory[selected])
            self._record_kills(float(part.times.min(initial=math.inf)), now)
            result = self._model.ingest_slots(slots[container_numbers[selected]], part, now)
            self._reserve(int(result.rows.max(initial=-1)) + 1)
            np.fmax.at(self._highest[0], result.rows, result.cpu * MILLICORES_PER_CORE)
            np.fmax.at(self._highest[1], result.rows, result.memory)
            if self._summaries is not None:
                self._summaries.add(result.rows, result.times, result.cpu * MILLICORES_PER_CORE, result.memory)
            self._record_kills(float(part.times.max(initial=-math.inf)), now)
            accepted += result.accepted
        return accepted

    def _split_at_kills(self, times: FloatColumn) -> Iterator[BoolColumn | slice]:
        """All samples, or one memory window at a time while kills have to be counted in between."""
        if not self._waiting or self._waiting[0].time > times.max(initial=-math.inf):
            yield slice(None)
            return
        numbers = np.floor((times - times.min()) / self._window)
        for number in np.unique(numbers):
            yield numbers == number

    def _record_kills(self, until: float, now: float) -> None:
        """Record kills up to a time, once usage until then is known: it determines their effect."""
        due = []
        while self._waiting and self._waiting[0].time <= until:
            due.append(self._waiting.popleft())
        if not due:
            return
        for kill in due:
            self._register(kill.pod, kill.container, kill.time)
        self._model.track_pods(self._namespace, list(self._tracked.values()), now)
        renamed = [self._rename_kill(kill) for kill in due if self._names[kill.pod, kill.container]]
        record = self._model.record_ooms(renamed, now)
        for kill, row in zip(record.kills, record.rows.tolist(), strict=True):
            self._kills.setdefault(row, []).append(kill.time)

    def _rename_kill(self, kill: OomKill) -> OomKill:
        """The kill under the tracked name of its container; unknown memory becomes the workload's current request."""
        name = self._names[kill.pod, kill.container]
        request = self._requests.get((self._tracked[name].vpa, kill.container), math.nan)
        memory = request if math.isnan(kill.memory) else kill.memory
        return msgspec.structs.replace(kill, pod=name, uid=name, memory=memory)

    def build_totals(self) -> dict[str, WorkloadUsage]:
        """The usage of whole workloads, by key; empty if not requested."""
        return self._totals.read_usage() if self._totals is not None else {}

    def build_rows(self, now: float) -> list[SurveyedUsage]:
        """The usage of each container."""
        self._record_kills(math.inf, now)
        view = self._model.view()
        rows = np.asarray(view.rows[(view.count > 0) | ~view.memory.is_empty(view.rows)])
        self._reserve(int(rows.max(initial=-1)) + 1)
        # Peaks of open windows are part of it: they are not reported again.
        saved = self._model.save_rows(rows, math.inf)
        return [
            SurveyedUsage(
                msgspec.structs.replace(row, updated=now),
                ResourceAmount(*self._highest[:, number].tolist()),
                len(self._kills.get(number, ())),
                max(self._kills.get(number, ()), default=math.nan),
                self._summaries.get_summary(number) if self._summaries is not None else None,
            )
            for number, row in zip(rows.tolist(), saved, strict=True)
        ]

    def _track_new_containers(
        self, containers: Sequence[tuple[str, str]], container_numbers: IntColumn, measured: Measurements, now: float
    ) -> None:
        """Track new containers, each as a pod of its own that starts with its first sample."""
        first_times: FloatColumn = np.full(len(containers), np.inf)
        np.minimum.at(first_times, container_numbers, measured.times)
        has_new = False
        for (pod, container), time in zip(containers, first_times.tolist(), strict=True):
            has_new |= self._register(pod, container, time)
        if has_new:
            self._model.track_pods(self._namespace, list(self._tracked.values()), now)

    def _register(self, pod: str, container: str, time: float) -> bool:
        """Name a container, with an empty name if its workload is not surveyed; returns whether it is new."""
        if (pod, container) in self._names:
            return False
        key = self._pods.find_governor(pod)
        containers = self._containers.get(key) if key is not None else None
        if key is None or containers is None or (containers and container not in containers):
            self._names[pod, container] = ""
            return False
        name = self._names[pod, container] = f"{pod}/{container}"
        started = time if math.isfinite(time) else math.nan
        self._tracked[name] = TrackedPod(
            self._namespace, name, name, key, False, (TrackedContainer(container),), started
        )
        return True

    def _reserve(self, rows: int) -> None:
        added = rows - self._highest.shape[1]
        if added > 0:
            self._highest = np.concatenate([self._highest, np.full((2, added), np.nan)], axis=1)
        if self._summaries is not None:
            self._summaries.reserve(rows)


def _build_claim(key: str, workload: SurveyedWorkload) -> TargetClaim:
    """The claim of a workload on past pods, by its name; the name of a group is only the value of a label."""
    kind = "" if workload.group else workload.kind
    target = TargetRef(workload.namespace, workload.api_version, kind, workload.name)
    return TargetClaim(workload.namespace, key, key, math.nan, target, None)
