"""Whose pods are whose, in one namespace? The claims of VPAs there, the pods they govern, and what is wrong with them.

A VPA that acts goes before those in mode `Off`, as with those who size pods: one that is made to look at its
recommendation, however old, must not take away the recommendation of the one that is applied.

A namespace is looked at as a whole, and only when something in it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.api.kinds import HVPA
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.resolve import EffectiveVpa, acts, resolve_vpa
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.core.model.keys import BY_NAMESPACE
from trellis.core.model.owners import Owners, ScaleAnswer, TargetRef
from trellis.core.model.pods import FollowedPod, followed
from trellis.core.model.selection import select
from trellis.core.model.target_problems import TargetProblem
from trellis.core.model.targets import Claim, Governance, govern
from trellis.core.recommend.seen import Seen

Follows = Callable[[str], bool]

# Ranks of claims.
_ACTS: Final = 0
_ONLY_RECOMMENDS: Final = 1


class Roster(msgspec.Struct, frozen=True):
    """One namespace, by names of VPAs: who governs whom, whose target cannot be used, and the Hvpa over each.

    Those in `publishing` were made by their Hvpa, which reads their status; for others it has a status of its own.
    `effective` is what the VPAs under an Hvpa mean.
    """

    governance: Governance
    problems: Mapping[str, TargetProblem]
    hvpas: Mapping[str, Hvpa]
    publishing: frozenset[str]
    claims: tuple[Claim, ...]
    effective: Mapping[str, EffectiveVpa]

    def is_outranked(self, vpa: str) -> bool:
        """Whether it has rivals that act while it does not, whatever their ages."""
        rivals = self.governance.rivals.get(vpa, ())
        ranks = {claim.name: claim.rank for claim in self.claims} if rivals else {}
        return any(ranks[rival] < ranks[vpa] for rival in rivals)


def owners_in(seen: Seen, scales: Mapping[TargetRef, ScaleAnswer]) -> Owners:
    """What is known of controllers in this pass."""
    return Owners({kind: snapshot.get for kind, snapshot in seen.workloads.items()}, scales)


def roster_of(
    vpas: Sequence[VerticalPodAutoscaler], pods: Sequence[ObservedPod], hvpas: Sequence[Hvpa], owners: Owners
) -> Roster:
    """The roster of a namespace from everything in it."""
    claims: list[Claim] = []
    problems: dict[str, TargetProblem] = {}
    over: dict[str, Hvpa] = {}
    targets = {(hvpa.spec.target_ref.kind, hvpa.spec.target_ref.name): hvpa for hvpa in _oldest_last(hvpas)}
    for vpa in vpas:
        target = target_of_vpa(vpa)
        selected = select(target, owners)
        if isinstance(selected, TargetProblem):
            problems[vpa.metadata.name] = selected
        metadata = vpa.metadata
        created = metadata.creation_timestamp
        claims.append(
            Claim(
                metadata.namespace,
                metadata.name,
                metadata.uid,
                created.timestamp() if created else float("nan"),
                target,
                None if isinstance(selected, TargetProblem) else selected,
                rank=_ACTS if acts(vpa) else _ONLY_RECOMMENDS,
            )
        )
        if (target.kind, target.name) in targets:
            over[metadata.name] = targets[target.kind, target.name]
    publishing = frozenset(vpa.metadata.name for vpa in vpas if vpa.metadata.name in over and _made_by_hvpa(vpa))
    effective = {vpa.metadata.name: resolve_vpa(vpa) for vpa in vpas if vpa.metadata.name in over}
    return Roster(govern(claims, pods, owners), problems, over, publishing, tuple(claims), effective)


def target_of_vpa(vpa: VerticalPodAutoscaler) -> TargetRef:
    """What a VPA says it is about."""
    ref = vpa.spec.target_ref
    return TargetRef(vpa.metadata.namespace, ref.api_version or "", ref.kind or "", ref.name or "")


def _made_by_hvpa(vpa: VerticalPodAutoscaler) -> bool:
    """Whether an Hvpa made this VPA, and so reads its status."""
    controller = vpa.metadata.controller
    return controller is not None and controller.kind == HVPA.name and controller.api_version == HVPA.api_version


def governed_pods(roster: Roster, pods: Sequence[ObservedPod], follows: Follows) -> list[tuple[ObservedPod, str]]:
    """The pods whose usage is to be remembered, with their VPAs: those of VPAs that `follows` names."""
    governor = roster.governance.governor
    wanted = {vpa for vpa in set(governor.values()) if follows(vpa)}
    found = ((pod, governor.get(pod.metadata.name)) for pod in pods)
    return [(pod, vpa) for pod, vpa in found if vpa is not None and vpa in wanted]


def followed_pods(governed: Sequence[tuple[ObservedPod, str]]) -> list[FollowedPod]:
    """The same as the usage model wants it."""
    return [followed(pod, vpa) for pod, vpa in governed]


def in_one_namespace(seen: Seen, namespace: str) -> tuple[Any, Any, Any]:
    """VPAs, pods and Hvpas there; also pods that are gone but have run out of memory since the last look."""
    pods = {pod.metadata.name: pod for pod in seen.pods.by(BY_NAMESPACE, namespace)}
    for kill in seen.news.kills:
        if kill.pod is not None and kill.what.namespace == namespace:
            pods.setdefault(kill.what.pod, kill.pod)
    return (
        seen.vpas.by(BY_NAMESPACE, namespace),
        tuple(pods.values()),
        seen.hvpas.by(BY_NAMESPACE, namespace),
    )


def _oldest_last(hvpas: Sequence[Hvpa]) -> list[Hvpa]:
    """Of two Hvpas on one target the older governs, so it is entered last."""

    def age(hvpa: Hvpa) -> tuple[float, str]:
        created = hvpa.metadata.creation_timestamp
        return (created.timestamp() if created else float("inf")), hvpa.metadata.name

    return sorted(hvpas, key=age, reverse=True)
