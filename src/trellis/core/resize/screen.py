"""Which workloads need a plan now?

Of a large cluster hardly any do, and a look at all of them is a few operations on columns. What comes in costs what one
pod or one object costs: the decision itself is asked once for all pods of a workload that are alike (`kinds`), and the
answer stays in a column until the object or its namespace changes.

Whatever a plan would change is let through, and when it would look again is told. Some may be let through for nothing:
of budgets only the minimum of replicas is asked here, and neither earlier attempts nor nodes. Those make a plan wait,
and whoever made it tells for how long by `look`.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.resize.budget import minimum_of
from trellis.core.resize.kinds import Turn, is_left_alone, is_special, kind_of, turn_of
from trellis.core.resize.screened import NOBODY, KindTable, PodTable, Workload, WorkloadKey, WorkloadTable
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.views import PodView, WorkloadView
from trellis.core.sizing.governors import Governor
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

_NO_LIMITS = NamespaceLimits()
_NONE: frozenset[str] = frozenset()


class Screened(msgspec.Struct, frozen=True):
    """Workloads that need a plan. The plans of all others do nothing, and nothing to come before `next_look`."""

    workloads: tuple[WorkloadKey, ...] = ()
    next_look: float | None = None


class Screen:
    """All governed pods of a cluster and what governs them, in columns."""

    def __init__(self, settings: UpdateSettings) -> None:
        self._settings = settings
        self._pods = PodTable()
        self._kinds = KindTable()
        self._workloads = WorkloadTable()

    @property
    def nbytes(self) -> int:
        """What the columns occupy."""
        return self._pods.nbytes + self._kinds.nbytes + self._workloads.nbytes

    def __len__(self) -> int:
        return self._pods.size

    def put(self, governor: Governor, limits: NamespaceLimits = _NO_LIMITS, hpa: frozenset[str] = _NONE) -> WorkloadKey:
        """An object that is new or changed, or whose namespace or HPA is. What is not asked for anew costs nothing."""
        key = WorkloadKey.of(governor)
        number = self._workloads.enter(key)
        entry = self._workloads.entries[number]
        view = WorkloadView(governor, (), limits=limits, hpa=hpa)
        if view != entry.view:
            entry.view = view
            own = governor.vpa.evict_after_oom
            workloads = self._workloads
            workloads.governed[number] = True
            workloads.patience[number] = self._settings.evict_after_oom if own is None else own.total_seconds()
            workloads.minimum[number] = minimum_of(governor.vpa.min_replicas, self._settings)
            for kind, place in entry.kinds.items():
                self._judge(kind, place, view)
        return key

    def drop(self, key: WorkloadKey) -> None:
        """An object that is gone; its pods stay until they are dropped, or put elsewhere."""
        number = self._workloads.find(key)
        if number < 0:
            return
        entry = self._workloads.entries[number]
        entry.view = None
        self._workloads.governed[number] = False
        self._workloads.look[number] = math.inf
        self._workloads.leave(number)

    def put_pod(self, key: WorkloadKey, pod: PodView) -> None:
        """A pod that is new, changed, or governed by somebody else now."""
        number = self._pods.find(pod.ref.uid)
        workload = self._workloads.enter(key)
        if number >= 0 and self._pods.workload[number] != workload:
            self.drop_pod(pod.ref.uid)
            number = -1
        entry = self._workloads.entries[workload]
        if number < 0:
            number = self._pods.name(pod.ref.uid)
            self._pods.workload[number] = workload
            entry.pods += 1
        pods, alone = self._pods, is_left_alone(pod)
        pods.special[number] = not alone and is_special(pod)
        pods.living[number] = not pod.over
        pods.started[number] = math.nan if pod.started is None else pod.started
        pods.ran[number] = min(pod.kills.values(), default=math.inf)
        self._place(number, entry, None if alone or is_special(pod) else pod)

    def drop_pod(self, uid: str) -> None:
        """A pod that is gone, or that nobody governs."""
        number = self._pods.find(uid)
        if number < 0:
            return
        workload = int(self._pods.workload[number])
        entry = self._workloads.entries[workload]
        self._place(number, entry, None)
        self._pods.release(np.array([number], dtype=np.int64))
        entry.pods -= 1
        self._workloads.leave(workload)

    def look(self, key: WorkloadKey, at: float | None) -> None:
        """When the plan that was just made asks to be made anew; None leaves that to what happens."""
        number = self._workloads.find(key)
        if number >= 0:
            self._workloads.look[number] = math.inf if at is None else at

    def screen(self, now: float) -> Screened:
        """The workloads that need a plan, and when there may be others without anything happening before."""
        workloads, reach = self._workloads, self._workloads.reach
        if not workloads.size:
            return Screened()
        governed, look = workloads.governed[:reach], workloads.look[:reach]
        wanted = look <= now
        turns, owner = self._turns(), self._pods.workload[: self._pods.reach]
        old_at = self._pods.started[: self._pods.reach] + self._settings.lifetime
        old = old_at <= now
        acting = (turns & Turn.AT_ONCE).astype(np.bool_) | ((turns & Turn.WHEN_OLD).astype(np.bool_) & old)
        acting &= self._may_be_disturbed(owner)
        wanted[owner[acting | self._pods.special[: self._pods.reach]]] = True
        aging = (turns & Turn.AGING).astype(np.bool_) & (old_at > now) & governed[owner]
        coming = min(_least(old_at[aging]), _least(look[governed & (look > now)]))
        keys = workloads.keys(np.flatnonzero(wanted & governed).tolist())
        return Screened(tuple(keys), coming if math.isfinite(coming) else None)

    def _turns(self) -> IntColumn:
        """The turn of each pod."""
        reach = self._pods.reach
        kind = self._pods.kind[:reach]
        soon = self._pods.ran[:reach] < self._workloads.patience[self._pods.workload[:reach]]
        return np.where(soon, self._kinds.turn_killed[kind], self._kinds.turn[kind])

    def _may_be_disturbed(self, owner: IntColumn) -> BoolColumn:
        """Of each pod, whether its workload has as many as there must be; those of one controller are no more."""
        if self._settings.skip_disruption_budget:
            return np.ones(len(owner), dtype=np.bool_)
        living = np.bincount(owner[self._pods.living[: len(owner)]], minlength=self._workloads.reach)
        enough: BoolColumn = living >= self._workloads.minimum[: self._workloads.reach]
        return enough[owner]

    def _place(self, number: int, entry: Workload, pod: PodView | None) -> None:
        """Give a pod its kind; None is for those that have none."""
        before, place = int(self._pods.kind[number]), NOBODY
        if pod is not None:
            place = self._find(kind_of(pod), entry, killed=bool(pod.kills))
        if place == before:
            return
        self._pods.kind[number] = place
        self._kinds.pods[place] += 1
        self._kinds.pods[before] -= 1
        if before != NOBODY and not self._kinds.pods[before]:
            entry.kinds = {kind: each for kind, each in entry.kinds.items() if each != before}
            self._kinds.release(np.array([before], dtype=np.int64))

    def _find(self, kind: bytes, entry: Workload, *, killed: bool) -> int:
        """The number of a kind, which gets one if it has none."""
        place = entry.kinds.get(kind)
        if place is not None and (self._kinds.killed[place] or not killed):
            return place
        if place is None:
            place = entry.kinds[kind] = int(self._kinds.take(1)[0])
        self._kinds.killed[place] = killed
        if entry.view is not None:
            self._judge(kind, place, entry.view)
        return place

    def _judge(self, kind: bytes, place: int, view: WorkloadView) -> None:
        turn = turn_of(view, kind, self._settings)
        self._kinds.turn[place] = self._kinds.turn_killed[place] = turn
        # That a container was killed does not mean that it counts, so that the other turn stays open.
        if self._kinds.killed[place] and Turn.AT_ONCE not in turn:
            self._kinds.turn_killed[place] = turn | turn_of(view, kind, self._settings, killed=True)


def _least(times: FloatColumn) -> float:
    return float(times.min()) if len(times) else math.inf
