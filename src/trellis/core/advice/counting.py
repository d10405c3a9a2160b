"""What did the containers of a namespace use? Counted piece by piece, oldest first, as rows that outlive the counting.

Each namespace has a usage model of its own, which is dropped when its rows are known: pods of the past come by the
thousand, and memory must not grow with them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from trellis.core.advice.asked import Asked
from trellis.core.advice.surveyed import Amount, SurveyedWorkload
from trellis.core.advice.totals import Totals, TotalsCounter
from trellis.core.model.ooms import OomKill
from trellis.core.model.owners import TargetRef
from trellis.core.model.past_pods import PastPods
from trellis.core.model.pods import FollowedContainer, FollowedPod
from trellis.core.model.targets import Claim
from trellis.core.recommend.amounts import MILLICORES
from trellis.core.recommend.declaration import needs_runs
from trellis.core.usage.checkpoints import SavedRow
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Measured


class UsedRow(msgspec.Struct, frozen=True):
    """One container of a workload: what is remembered of it, the most it used, and its out-of-memory kills."""

    row: SavedRow
    highest: Amount = Amount()
    kills: int = 0
    last_kill: float = math.nan


class NamespaceUsage:
    """Counts samples of one namespace, and the out-of-memory kills there.

    `workloads` are by key, `pods` is whose those are that are known. `totals` sums up what they used as a whole,
    if anybody wants to know.
    """

    def __init__(
        self,
        namespace: str,
        workloads: Mapping[str, SurveyedWorkload],
        pods: Mapping[str, str],
        asked: Asked,
        kills: Sequence[OomKill] = (),
        *,
        totals: TotalsCounter | None = None,
    ) -> None:
        self._namespace = namespace
        self._totals = totals
        self._model = UsageModel(asked.usage)
        keys = [(namespace, key) for key in workloads]
        if asked.recommender.needs_history:
            self._model.keep_history(keys)
        if needs_runs(asked.recommender):
            self._model.keep_runs(keys)
        self._containers = {key: {each.name for each in workload.containers} for key, workload in workloads.items()}
        self._requests = {
            (key, each.name): each.request.memory for key, workload in workloads.items() for each in workload.containers
        }
        self._pods = PastPods([_claim(key, workload) for key, workload in workloads.items()], pods, {})
        self._ghosts: dict[str, FollowedPod] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._highest = np.full((2, 0), np.nan)
        self._window = asked.usage.memory_window
        self._waiting = deque(sorted(kills, key=lambda kill: kill.time))
        self._kills: dict[int, list[float]] = {}

    @property
    def series(self) -> int:
        """How many containers of pods there were so far, each pod's apart."""
        return len(self._names)

    def take_in(self, containers: Sequence[tuple[str, str]], which: IntColumn, measured: Measured, now: float) -> int:
        """Count a batch: containers of pods, of which one each sample is, and what was measured; how many were of use.

        The samples of a container are in the order of their times, in a batch and from batch to batch.
        """
        self._meet(containers, which, measured, now)
        names = [self._names[each] for each in containers]
        if self._totals is not None:
            keys = [self._ghosts[name].vpa if name else "" for name in names]
            self._totals.take_in(keys, [pod for pod, _ in containers], which, measured)
        slots = self._model.slots([self._namespace] * len(names), names, [name for _, name in containers])
        accepted = 0
        for some in self._stretches(measured.times):
            part = Measured(measured.times[some], measured.cpu[some], measured.memory[some])
            self._kill(float(part.times.min(initial=math.inf)), now)
            found = self._model.ingest_at(slots[which[some]], part, now)
            self._reach(int(found.rows.max(initial=-1)) + 1)
            np.fmax.at(self._highest[0], found.rows, found.cpu * MILLICORES)
            np.fmax.at(self._highest[1], found.rows, found.memory)
            self._kill(float(part.times.max(initial=-math.inf)), now)
            accepted += found.accepted
        return accepted

    def _stretches(self, times: FloatColumn) -> Iterator[BoolColumn | slice]:
        """All at once, or, while there are kills to be counted in between, as much as a kill may be late by."""
        if not self._waiting or self._waiting[0].time > times.max(initial=-math.inf):
            yield slice(None)
            return
        numbers = np.floor((times - times.min()) / self._window)
        for number in np.unique(numbers):
            yield numbers == number

    def _kill(self, until: float, now: float) -> None:
        """Count kills up to a time, when what was used until then is known: it says what they mean."""
        due = []
        while self._waiting and self._waiting[0].time <= until:
            due.append(self._waiting.popleft())
        if not due:
            return
        for kill in due:
            self._known(kill.pod, kill.container, kill.time)
        self._model.follow(self._namespace, list(self._ghosts.values()), now)
        named = [self._named(kill) for kill in due if self._names[kill.pod, kill.container]]
        record = self._model.record_ooms(named, now)
        for kill, row in zip(record.kills, record.rows.tolist(), strict=True):
            self._kills.setdefault(row, []).append(kill.time)

    def _named(self, kill: OomKill) -> OomKill:
        """A kill under the name that its container has here; one that nobody saw had what its workload has now."""
        name = self._names[kill.pod, kill.container]
        had = self._requests.get((self._ghosts[name].vpa, kill.container), math.nan)
        memory = had if math.isnan(kill.memory) else kill.memory
        return msgspec.structs.replace(kill, pod=name, uid=name, memory=memory)

    def totals(self) -> dict[str, Totals]:
        """What workloads used as a whole, by key; nothing if nobody wanted to know."""
        return self._totals.found() if self._totals is not None else {}

    def rows(self, now: float) -> list[UsedRow]:
        """What came of it."""
        self._kill(math.inf, now)
        view = self._model.view()
        rows = np.asarray(view.rows[(view.count > 0) | ~view.memory.empty(view.rows)])
        self._reach(int(rows.max(initial=-1)) + 1)
        # Peaks of windows that are not over are part of it: nobody will tell of them again.
        saved = self._model.saved(rows, math.inf)
        return [
            UsedRow(
                msgspec.structs.replace(row, updated=now),
                Amount(*self._highest[:, number].tolist()),
                len(self._kills.get(number, ())),
                max(self._kills.get(number, ()), default=math.nan),
            )
            for number, row in zip(rows.tolist(), saved, strict=True)
        ]

    def _meet(self, containers: Sequence[tuple[str, str]], which: IntColumn, measured: Measured, now: float) -> None:
        """Follow containers that come for the first time, each as a pod of its own, and as if it began then."""
        first: FloatColumn = np.full(len(containers), np.inf)
        np.minimum.at(first, which, measured.times)
        met = False
        for (pod, container), time in zip(containers, first.tolist(), strict=True):
            met |= self._known(pod, container, time)
        if met:
            self._model.follow(self._namespace, list(self._ghosts.values()), now)

    def _known(self, pod: str, container: str, time: float) -> bool:
        """Give a container its name here, which is empty if nobody asks about it; whether it is new."""
        if (pod, container) in self._names:
            return False
        key = self._pods.governor(pod)
        known = self._containers.get(key) if key is not None else None
        if key is None or known is None or (known and container not in known):
            self._names[pod, container] = ""
            return False
        name = self._names[pod, container] = f"{pod}/{container}"
        started = time if math.isfinite(time) else math.nan
        self._ghosts[name] = FollowedPod(
            self._namespace, name, name, key, False, (FollowedContainer(container),), started
        )
        return True

    def _reach(self, rows: int) -> None:
        more = rows - self._highest.shape[1]
        if more > 0:
            self._highest = np.concatenate([self._highest, np.full((2, more), np.nan)], axis=1)


def _claim(key: str, workload: SurveyedWorkload) -> Claim:
    """By the name of a workload its pods of the past are known; a group's is only the value of a label."""
    kind = "" if workload.group else workload.kind
    target = TargetRef(workload.namespace, workload.api_version, kind, workload.name)
    return Claim(workload.namespace, key, key, math.nan, target, None)
