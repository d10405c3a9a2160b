"""What does a pod lack, and what could be written to it now?

The same question may be asked of what is in force and, while a resize is under way, of what has been asked for: if the
second is what is wanted, there is nothing more to ask for.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trellis.api.resolve import UpdateMode
from trellis.core.resize.alike import Sizes
from trellis.core.resize.attempts import Attempt
from trellis.core.resize.changes import InPlaceChange
from trellis.core.resize.eligibility import RESIZE_MISSED, Need, NoNeed, Part, judge
from trellis.core.resize.inplace import Prospect, Stage
from trellis.core.resize.requirements import Comparison
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.views import PodView, WorkloadView
from trellis.core.sizing.shapes import PodShape

_NEVER_TRIED = Attempt()


class Case(msgspec.Struct, frozen=True):
    """One pod of a workload at one moment."""

    view: WorkloadView
    pod: PodView
    sizes: Sizes
    now: float
    settings: UpdateSettings

    @property
    def attempt(self) -> Attempt:
        """What is remembered of the pod."""
        return self.view.attempts.pods.get(self.pod.ref.uid, _NEVER_TRIED)


def need_of(case: Case, shape: PodShape, spared: frozenset[Part]) -> Need | NoNeed:
    """Whether a pod of this shape should change, `spared` left out."""
    gap = case.sizes.gap(shape, spared)
    return judge(gap, started=case.pod.started, quick_oom=_soon_killed(case), now=case.now, settings=case.settings)


def need_to_repeat(case: Case, need: Need | NoNeed, spared: frozenset[Part]) -> Need | NoNeed:
    """The need of a pod that missed its last resize: that resize once more, or another that is due anyway.

    Nothing is done if no resource is left that could be resized.
    """
    gap = case.sizes.gap(case.pod.in_spec, spared)
    size = case.sizes.in_place(case.pod.in_spec, spared)
    if not gap.is_known or not size.containers:
        return need
    has = {each.name: each.requests for each in case.pod.in_spec.containers}
    compared = tuple(
        Comparison(each.container.name, each.requests, has[each.container.name]) for each in size.containers
    )
    return Need(RESIZE_MISSED, True, need.difference, need.containers if isinstance(need, Need) else compared)


def when_it_runs(case: Case, prospect: Prospect) -> float | None:
    """When a pod whose containers are down is looked at again, if nothing changes before."""
    if prospect is not Prospect.DOWN:
        return None
    downtime = case.pod.downtime
    if downtime.since is None:
        return downtime.settled
    evicts = case.view.governor.vpa.mode is not UpdateMode.IN_PLACE
    return downtime.since + case.settings.down_patience if evicts else None


def prospect_of(case: Case, change: InPlaceChange, stage: Stage, asked: Need | NoNeed) -> Prospect:
    """What could be written; during a resize only what is worth asking for once more."""
    if change.patch and case.attempt.is_refused(change.wanted, case.view.nodes.get(case.pod.node, {})):
        return Prospect.REFUSED
    if change.patch and (stage is Stage.IDLE or _is_another(case.pod, change, stage, asked)):
        return _once_it_runs(case)
    if stage is not Stage.IDLE:
        return Prospect.TRIED
    if change.barred:
        return Prospect.BARRED
    large = isinstance(asked, Need) and asked.difference >= case.settings.update_threshold
    return Prospect.IMPOSSIBLE if large else Prospect.NEGLIGIBLE


def _once_it_runs(case: Case) -> Prospect:
    """A change is written only while all containers run."""
    downtime = case.pod.downtime
    if downtime.since is not None:
        return Prospect.DOWN_TOO_LONG if case.now >= downtime.since + case.settings.down_patience else Prospect.DOWN
    return Prospect.DOWN if downtime.is_settling(case.now) else Prospect.OPEN


def for_hpa(case: Case) -> Iterator[Part]:
    """What is left to an HPA."""
    return ((each.name, resource) for each in case.pod.in_spec.containers for resource in case.view.hpa)


def _soon_killed(case: Case) -> bool:
    """Whether a container was killed soon after its start, and not long ago: its pod tells of it for ever."""
    pod, vpa = case.pod, case.view.governor.vpa
    if not pod.kills:
        return False
    own = vpa.evict_after_oom if case.settings.per_vpa_config else None
    patience = own.total_seconds() if own is not None else case.settings.evict_after_oom
    # As upstream, but for an object that says less: nobody could act on a kill within so few seconds.
    memory = max(patience, case.settings.evict_after_oom)
    left_out = {name for name, _ in pod.unobserved}
    return any(
        vpa.container(name).scaled
        and name not in left_out
        and any(each.ran < patience and case.now - each.at < memory for each in kills)
        for name, kills in pod.kills.items()
    )


def _is_another(pod: PodView, change: InPlaceChange, stage: Stage, asked: Need | NoNeed) -> bool:
    """Whether another resize than the one under way is worth asking for. What is infeasible must become less."""
    if isinstance(asked, NoNeed):
        return False
    if stage is not Stage.INFEASIBLE:
        return True
    proposed = {each.name: each.requests for each in pod.in_spec.containers}
    return any(
        amount < proposed[name].get(resource, 0)
        for name, amounts in change.wanted.items()
        for resource, amount in amounts.items()
    )
