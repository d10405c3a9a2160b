"""Governance in a namespace: the pods of each VPA, unusable targets, and the Hvpa of a VPA.

An acting VPA takes precedence over those in mode `Off`, as in the admission controller and the updater: a VPA that was
created to read its recommendation, however old, must not take the recommendation of the acting one.

A namespace is evaluated as a whole, and only when something in it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.registry import HVPA
from trellis.api.resolve import EffectiveVpa, is_applied_to_pods, resolve_vpa
from trellis.core.cluster.governance import Governance, TargetClaim, assign_governors
from trellis.core.cluster.owners import Owners, ScaleInfo, TargetRef
from trellis.core.cluster.store import BY_NAMESPACE
from trellis.core.cluster.target_problems import TargetProblem
from trellis.core.cluster.target_selectors import resolve_selector
from trellis.core.recommend.state.snapshot import RecommenderSnapshot

# Ranks of claims.
_ACTS: Final = 0
_ONLY_RECOMMENDS: Final = 1


class NamespaceGovernance(msgspec.Struct, frozen=True):
    """One namespace, by names of VPAs: the pods of each, those with an unusable target, and the Hvpa over each.

    Those in `publishing` were made by their Hvpa, which reads their status; for others it has a status of its own.
    `effective` is what the VPAs under an Hvpa mean.
    """

    governance: Governance
    problems: Mapping[str, TargetProblem]
    hvpas: Mapping[str, Hvpa]
    publishing: frozenset[str]
    claims: tuple[TargetClaim, ...]
    effective: Mapping[str, EffectiveVpa]

    def is_outranked(self, vpa: str) -> bool:
        """Whether it has rivals that act while it does not, whatever their ages."""
        rivals = self.governance.rivals.get(vpa, ())
        ranks = {claim.name: claim.rank for claim in self.claims} if rivals else {}
        return any(ranks[rival] < ranks[vpa] for rival in rivals)


def build_owners(snapshot: RecommenderSnapshot, scales: Mapping[TargetRef, ScaleInfo]) -> Owners:
    """The controllers that are known in this pass."""
    return Owners({kind: workloads.get for kind, workloads in snapshot.workloads.items()}, scales)


def build_governance(
    vpas: Sequence[VerticalPodAutoscaler], pods: Sequence[ObservedPod], hvpas: Sequence[Hvpa], owners: Owners
) -> NamespaceGovernance:
    """The governance of a namespace from everything in it."""
    claims: list[TargetClaim] = []
    problems: dict[str, TargetProblem] = {}
    hvpas_by_vpa: dict[str, Hvpa] = {}
    targets = {(hvpa.spec.target_ref.kind, hvpa.spec.target_ref.name): hvpa for hvpa in _sort_oldest_last(hvpas)}
    for vpa in vpas:
        target = read_vpa_target(vpa)
        selector = resolve_selector(target, owners)
        if isinstance(selector, TargetProblem):
            problems[vpa.metadata.name] = selector
        metadata = vpa.metadata
        created = metadata.creation_timestamp
        claims.append(
            TargetClaim(
                metadata.namespace,
                metadata.name,
                metadata.uid,
                created.timestamp() if created else float("nan"),
                target,
                None if isinstance(selector, TargetProblem) else selector,
                rank=_ACTS if is_applied_to_pods(vpa) else _ONLY_RECOMMENDS,
            )
        )
        if (target.kind, target.name) in targets:
            hvpas_by_vpa[metadata.name] = targets[target.kind, target.name]
    publishing = frozenset(
        vpa.metadata.name for vpa in vpas if vpa.metadata.name in hvpas_by_vpa and _is_made_by_hvpa(vpa)
    )
    effective = {vpa.metadata.name: resolve_vpa(vpa) for vpa in vpas if vpa.metadata.name in hvpas_by_vpa}
    return NamespaceGovernance(
        assign_governors(claims, pods, owners), problems, hvpas_by_vpa, publishing, tuple(claims), effective
    )


def read_vpa_target(vpa: VerticalPodAutoscaler) -> TargetRef:
    """The target of a VPA."""
    ref = vpa.spec.target_ref
    return TargetRef(vpa.metadata.namespace, ref.api_version or "", ref.kind or "", ref.name or "")


def _is_made_by_hvpa(vpa: VerticalPodAutoscaler) -> bool:
    """Whether an Hvpa made this VPA, and so reads its status."""
    controller = vpa.metadata.controller
    return controller is not None and controller.kind == HVPA.name and controller.api_version == HVPA.api_version


def select_governed_pods(
    governance: NamespaceGovernance, pods: Sequence[ObservedPod], is_tracked: Callable[[str], bool]
) -> list[tuple[ObservedPod, str]]:
    """The pods whose usage is retained, with the names of their VPAs: those of VPAs that are tracked."""
    governor = governance.governance.governor
    tracked = {vpa for vpa in set(governor.values()) if is_tracked(vpa)}
    governed = ((pod, governor.get(pod.metadata.name)) for pod in pods)
    return [(pod, vpa) for pod, vpa in governed if vpa is not None and vpa in tracked]


def select_namespace(
    snapshot: RecommenderSnapshot, namespace: str
) -> tuple[Sequence[VerticalPodAutoscaler], Sequence[ObservedPod], Sequence[Hvpa]]:
    """The VPAs, pods and Hvpas of a namespace, and pods that are gone but ran out of memory since the last pass."""
    pods = snapshot.pods.by_index(BY_NAMESPACE, namespace)
    killed = [kill for kill in snapshot.changes.kills if kill.pod is not None and kill.kill.namespace == namespace]
    if killed:
        by_name = {pod.metadata.name: pod for pod in pods}
        for kill in killed:
            if kill.pod is not None:
                by_name.setdefault(kill.kill.pod, kill.pod)
        pods = tuple(by_name.values())
    return snapshot.vpas.by_index(BY_NAMESPACE, namespace), pods, snapshot.hvpas.by_index(BY_NAMESPACE, namespace)


def _sort_oldest_last(hvpas: Sequence[Hvpa]) -> list[Hvpa]:
    """Hvpas with the oldest last: of two on one target the older governs."""

    def age(hvpa: Hvpa) -> tuple[float, str]:
        created = hvpa.metadata.creation_timestamp
        return (created.timestamp() if created else float("inf")), hvpa.metadata.name

    return sorted(hvpas, key=age, reverse=True)
