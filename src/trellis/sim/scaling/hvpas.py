"""How many replicas, and how big, in a simulation? The decisions of the core, asked for as the live controller does.

An Hvpa is looked at when something about it changes, when it is due, and every interval. What a plan says is done at
once: the model's API server has no queue, and nobody else writes a target's count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from trellis.api.hvpa import Hvpa, ResourceTotals
from trellis.api.kinds import HVPA
from trellis.api.kube.pods import Pod
from trellis.api.kube.scaling import HorizontalPodAutoscaler, Scale
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.base.selectors import Selector
from trellis.core.hvpa import HvpaSettings, Plan, SetScale, WriteBack, plan
from trellis.core.hvpa.surroundings import Surroundings
from trellis.core.hvpa.viewing import pods_of, view_of
from trellis.core.model.keys import Key, key_of
from trellis.core.model.told import Told
from trellis.core.resize.governed import Workload
from trellis.sim.kernel import Kernel, Priority
from trellis.sim.scaling.hvpa_objects import KnownHvpa
from trellis.sim.scaling.scales import Scales

# Pods change in numbers: so long the rest of them is waited for.
_GATHER_SECONDS: Final = 0.25
# A write that failed is tried again after so long, and nothing is looked at more often than the next.
_RETRY_SECONDS: Final = 5.0
_SOONEST_SECONDS: Final = 0.2
# Whoever hands over pods knows whose they are.
_ALL_OF_THEM: Final = Selector.everything()


class Hvpas:
    """The Hvpas of a variant. `pods` finds those of a workload, and `publish` is told of an Hvpa with another size.

    To an HPA each of them has a scale of its own, where it leaves its wish. `scales` is given once there is a cluster.
    """

    scales: Scales

    def __init__(
        self,
        kernel: Kernel,
        hvpas: Iterable[Hvpa],
        *,
        pods: Callable[[Workload], Sequence[Pod]],
        publish: Callable[[Hvpa], None],
        figures: HvpaSettings,
    ) -> None:
        self._kernel = kernel
        self._pods = pods
        self._publish = publish
        self._figures = figures
        self._known = {key_of(each): KnownHvpa(each) for each in hvpas}
        self._by_target: dict[Workload, list[KnownHvpa]] = {}
        for known in self._known.values():
            self._by_target.setdefault(known.target, []).append(known)
        # By whom they are about.
        self._vpas: dict[Workload, dict[Key, VerticalPodAutoscaler]] = {}
        self._hpas: dict[Workload, dict[Key, HorizontalPodAutoscaler]] = {}
        self.verdicts: Counter[str] = Counter()
        """How often an Hvpa came to say something else."""

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, workload: object) -> bool:
        """Whether a workload is the target of any."""
        return workload in self._by_target

    def look_at_all(self) -> None:
        """Look at all of them now."""
        for known in self._known.values():
            self._wake(known)

    def changed(self, workload: Workload) -> None:
        """A workload, or a pod of it, changed."""
        for known in self._by_target.get(workload, ()):
            self._wake(known, _GATHER_SECONDS)

    def vpa(self, vpa: VerticalPodAutoscaler) -> None:
        """A VPA is new, or recommends something else."""
        target = vpa.spec.target_ref
        about = (vpa.metadata.namespace, target.kind, target.name)
        self._vpas.setdefault(about, {})[key_of(vpa)] = vpa
        for known in self._by_target.get(about, ()):
            self._wake(known)

    def hpa(self, hpa: HorizontalPodAutoscaler) -> None:
        """An HPA is new, or has seen something else."""
        target = hpa.spec.scale_target_ref
        about = (hpa.metadata.namespace, target.kind, target.name)
        self._hpas.setdefault(about, {})[key_of(hpa)] = hpa
        known = self._known.get((about[0], about[2])) if target.kind == HVPA.name else None
        if known is not None:
            self._wake(known)

    def totals(self, key: Key, totals: ResourceTotals) -> None:
        """The recommender has told what a whole workload needs, whose VPA is the user's."""
        known = self._known[key]
        known.total(totals)
        self._wake(known)

    def scale(self, namespace: str, _kind: str, name: str) -> Scale | None:
        """The scale of an Hvpa."""
        known = self._known.get((namespace, name))
        return known.scale if known is not None else None

    def set_scale(self, namespace: str, _kind: str, name: str, replicas: int, *, version: str = "") -> Told:
        """Somebody wishes for so many replicas."""
        known = self._known.get((namespace, name))
        if known is None:
            return Told.GONE
        if version and version != known.hvpa.metadata.resource_version:
            return Told.CONFLICT
        known.wish(replicas)
        self._wake(known)
        return Told.APPLIED

    def _wake(self, known: KnownHvpa, seconds: float = 0.0) -> None:
        at = self._kernel.now + seconds
        if known.look is not None and known.look.waits:
            if known.look.time <= at:
                return
            known.look.cancel()
        known.look = self._kernel.at(at, partial(self._look, known), Priority.HVPA)

    def _look(self, known: KnownHvpa) -> None:
        scale = self.scales.get(*known.target)
        if scale is None:
            self._wake(known, _RETRY_SECONDS)
            return
        now = self._kernel.now
        view = view_of(
            known.hvpa,
            known.meaning,
            scale,
            pods_of(known.seen(self._pods(known.target)), _ALL_OF_THEM),
            self._around(known),
            wish=known.hvpa.spec.replicas,
            published=known.published,
            memory=known.memory,
        )
        made = plan(view, now, self._figures)
        if not self._carry_out(known, made, scale):
            self._wake(known, _RETRY_SECONDS)
            return
        known.memory = made.memory
        if made.verdict.reason.code != known.verdict:
            known.verdict = made.verdict.reason.code
            self.verdicts[known.verdict] += 1
        if known.publish(made, scale):
            self._publish(known.hvpa)
        if made.next_look is not None:
            self._wake(known, max(made.next_look - now, _SOONEST_SECONDS))

    def _around(self, known: KnownHvpa) -> Surroundings:
        metadata = known.hvpa.metadata
        itself = (metadata.namespace, HVPA.name, metadata.name)
        hpas = [hpa for about in (itself, known.target) for hpa in self._hpas.get(about, {}).values()]
        others = [each.hvpa for each in self._by_target[known.target]]
        return Surroundings(others, hpas, tuple(self._vpas.get(known.target, {}).values()))

    def _carry_out(self, known: KnownHvpa, made: Plan, scale: Scale) -> bool:
        """Do what a plan says; False if the target could not be scaled."""
        for action in made.actions:
            if isinstance(action, SetScale):
                version = scale.metadata.resource_version
                if self.scales.put(*known.target, action.replicas, version=version) is not Told.APPLIED:
                    return False
            elif isinstance(action, WriteBack):
                known.wish(action.replicas)
        return True
