"""How is what the updater does counted? Actions as they happen; how many pods wait for what, once in a full pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product

import msgspec

from trellis.api.resolve import UpdateMode
from trellis.controllers.updater import metrics as named
from trellis.controllers.updater.metrics import size_label
from trellis.core.resize.actions import Action, EvictPod, ResizePod, UnmarkPod
from trellis.core.resize.attempts import BACKING_OFF
from trellis.core.resize.budget import HOURLY_BUDGET_USED_UP, TOLERANCE_USED_UP
from trellis.core.resize.gathering import Gathered
from trellis.core.resize.governed import Workload
from trellis.core.resize.inplace import RESIZE_INFEASIBLE, RESIZE_REFUSED, Way
from trellis.core.resize.loops import EVICTION_LOOP
from trellis.core.resize.plan import Plan
from trellis.core.resize.withheld import ADMISSION_ABSENT
from trellis.kube.outcomes import Outcome, Result
from trellis.runtime.metrics import GaugeSpec, Metrics

_SIZES = tuple(map(str, range(named.LARGEST_SIZE)))
# Why pods that are to be changed wait for their turn.
_IN_LINE = (BACKING_OFF, HOURLY_BUDGET_USED_UP)
_EVICTING = ("Recreate", "Auto")
_MODES = (UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE)


class Look(msgspec.Struct, frozen=True):
    """What was last decided about a workload."""

    name: str
    mode: str
    size: str
    pods: int
    ways: Counter[tuple[str, str]]
    warnings: Counter[str]
    # Whether the object lets the updater change running pods at all: others are not controlled, as upstream has it.
    controls: bool

    def matching(self) -> tuple[int, int]:
        """How many pods are to be evicted and resized: those whose turn it is, and those that wait for theirs."""
        evicts, resizes = (
            sum(count for (each, _), count in self.ways.items() if each == way.value) for way in (Way.EVICT, Way.RESIZE)
        )
        # Without any whose turn it is, it is others that are out of service, and nobody would be next.
        next_ones = (*_IN_LINE, TOLERANCE_USED_UP) if evicts or resizes else _IN_LINE
        waiting = sum(self.ways[Way.WAIT.value, reason.code] for reason in next_ones)
        evicts += self.ways[Way.WAIT.value, ADMISSION_ABSENT.code] + self.ways[Way.LEAVE.value, EVICTION_LOOP.code]
        return (evicts + waiting, resizes) if self.mode in _EVICTING else (evicts, resizes + waiting)


class Counting:
    """Counts. Everything but `full_pass` is called on the event loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.looks: dict[Workload, Look] = {}
        self._evicted: set[Workload] = set()
        self._updated: set[Workload] = set()
        for counter in (named.PLANS, named.PLAN_FAILURES, named.OUTDATED):
            metrics.add(counter, 0)
        for reason in (named.STATUS_ERROR, named.STATUS_INVALID):
            metrics.add(named.ABSENT_ADMISSION, 0, reason)

    def planned(self, gathered: Gathered, plan: Plan) -> None:
        """A plan was made."""
        ways = Counter((each.way.value, each.reason.code) for each in plan.verdicts)
        warnings = Counter(warning.code for each in plan.verdicts for warning in each.warnings)
        governor, pods = gathered.governor, gathered.live
        vpa, size = governor.vpa, size_label(pods)
        controls = vpa.boosts or vpa.mode not in (UpdateMode.OFF, UpdateMode.INITIAL)
        look = Look(governor.name, vpa.counted_mode, size, pods, ways, warnings, controls)
        before = self.looks.get(gathered.workload)
        self.looks[gathered.workload] = look
        skipped = _skips(look) - (_skips(before) if before is not None else 0)
        if skipped > 0:
            self._metrics.add(named.INFEASIBLE_SKIPS, skipped, look.size, look.name, gathered.workload[0])

    def forget(self, workload: Workload) -> None:
        """Nothing governs the workload any more."""
        self.looks.pop(workload, None)

    def outdated(self) -> None:
        """An action was dropped."""
        self._metrics.add(named.OUTDATED, 1)

    def carried_out(self, gathered: Gathered, action: Action, outcome: Outcome, seconds: float) -> None:
        """An action was tried, and took so long."""
        governor = gathered.governor
        size, mode = size_label(gathered.live), governor.vpa.counted_mode
        whose = (governor.name, gathered.workload[0])
        if isinstance(action, UnmarkPod) or outcome.result is Result.SKIPPED:
            return
        if isinstance(action, EvictPod):
            if outcome.applied:
                self._metrics.add(named.EVICTED, 1, size, mode, *whose)
                self._evicted.add(gathered.workload)
            else:
                self._metrics.add(named.FAILED_EVICTIONS, 1, size, mode, named.EVICTION_ERROR, *whose)
        elif outcome.applied:
            self._metrics.add(named.UPDATED, 1, size, *whose)
            self._updated.add(gathered.workload)
            if action.unboosts:
                self._metrics.observe(named.UNBOOST_DELAY, seconds)
        else:
            reason = _failure(action, outcome, governor.vpa.mode)
            self._metrics.add(named.FAILED_UPDATES, 1, size, reason, *whose)

    def begin_pass(self) -> None:
        """A full pass begins: what was done before belongs to another."""
        self._evicted.clear()
        self._updated.clear()

    def full_pass(self, looks: Mapping[Workload, Look]) -> None:
        """Say how many pods wait for what. It takes milliseconds for thousands of workloads: call it in a thread."""
        by_mode = {spec: Counter[tuple[str, ...]]() for spec in _BY_MODE}
        by_size = {spec: Counter[tuple[str, ...]]() for spec in _BY_SIZE}
        verdicts: Counter[tuple[str, ...]] = Counter()
        warnings: Counter[tuple[str, ...]] = Counter()
        for workload, look in looks.items():
            verdicts.update(look.ways)
            warnings.update({(code,): count for code, count in look.warnings.items()})
            if not look.controls:
                continue
            where = (look.size, look.mode)
            evicts, resizes = look.matching()
            by_mode[named.CONTROLLED][where] += look.pods
            by_mode[named.EVICTABLE][where] += evicts
            by_mode[named.WITH_EVICTABLE][where] += evicts > 0
            by_mode[named.WITH_EVICTED][where] += workload in self._evicted
            by_size[named.UPDATABLE][look.size,] += resizes
            by_size[named.WITH_UPDATABLE][look.size,] += resizes > 0
            by_size[named.WITH_UPDATED][look.size,] += workload in self._updated
            self._zero(workload[0], look)
        for spec, counts in by_mode.items():
            zeros: dict[tuple[str, ...], float] = {(size, mode.value): 0.0 for size, mode in product(_SIZES, _MODES)}
            self._set(spec, zeros, counts)
        for spec, counts in by_size.items():
            self._set(spec, {(size,): 0.0 for size in _SIZES}, counts)
        self._set(named.VERDICTS, {}, verdicts)
        self._set(named.WARNINGS, {}, warnings)
        self._metrics.keep(named.OBJECT, {(look.name, workload[0]) for workload, look in looks.items()})

    def _zero(self, namespace: str, look: Look) -> None:
        """A first eviction shall show as a rise."""
        self._metrics.add(named.EVICTED, 0, look.size, look.mode, look.name, namespace)
        self._metrics.add(named.UPDATED, 0, look.size, look.name, namespace)

    def _set(self, spec: GaugeSpec, zeros: dict[tuple[str, ...], float], counts: Mapping[tuple[str, ...], int]) -> None:
        self._metrics.set_all(spec, zeros | {labels: float(count) for labels, count in counts.items()})


_BY_MODE = (named.CONTROLLED, named.EVICTABLE, named.WITH_EVICTABLE, named.WITH_EVICTED)
_BY_SIZE = (named.UPDATABLE, named.WITH_UPDATABLE, named.WITH_UPDATED)


def _skips(look: Look) -> int:
    return sum(look.ways[Way.LEAVE.value, reason.code] for reason in (RESIZE_INFEASIBLE, RESIZE_REFUSED))


def _failure(action: ResizePod, outcome: Outcome, mode: UpdateMode) -> str:
    if action.unboosts:
        return named.UNBOOST_ERROR
    # Where the pod is evicted instead, upstream tells no failure from another.
    is_final = outcome.result is Result.INFEASIBLE and mode is UpdateMode.IN_PLACE
    return named.UPDATE_INFEASIBLE if is_final else named.UPDATE_ERROR
