"""Decides which VPA or Hvpa governs a pod.

One rule: the pod is in the claim's namespace, the claim's selector matches its labels, and its topmost controller is
the claim's target. Where the topmost controller is unknown (a pod without one, a kind that cannot be a target), the
labels alone decide, unless the caller requires a known owner: the recommender, which follows usage, can afford to be
generous; the updater, which resizes pods, cannot. If several claims fit, the oldest of the lowest rank governs; of
equally old ones the first by name.

`assign_governors` works on a whole namespace and never walks pods times claims. Pods with the same owner and the same
labels form one group and are judged once. A claim examines the groups that its target owns, and among those without a
known owner the ones that have the rarest pair of labels its selector requires.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.kube.slices import Labels
from trellis.base.selectors import LabelOperator, Selector
from trellis.core.cluster.owners import Owners, TargetRef, build_controller_ref

_EQUALITY = (LabelOperator.EQUALS, LabelOperator.DOUBLE_EQUALS, LabelOperator.IN)


class TargetClaim(msgspec.Struct, frozen=True, gc=False):
    """The target and pods that one VPA or Hvpa claims; without a selector, none. `created` is seconds since the epoch.

    Claims of a lower `rank` go first, whatever their age: for sizing pods, a VPA that acts comes before an Hvpa, which
    yields to it. The recommender ranks VPAs that act before those in mode Off.
    """

    namespace: str
    name: str
    uid: str
    created: float
    target: TargetRef
    selector: Selector | None
    rank: int = 0

    @property
    def seniority(self) -> tuple[int, float, str]:
        """The sort key of claims: the governing one first, one of unknown age last."""
        return self.rank, (math.inf if math.isnan(self.created) else self.created), self.name


class Governance(msgspec.Struct, frozen=True):
    """The governors of the pods of a namespace, by name.

    `governor` has every governed pod, `matched` how many pods each claim governs, and `rivals` the claims that go
    before one and govern pods which it matches too, the first of them first.
    """

    governor: dict[str, str]
    rivals: dict[str, tuple[str, ...]]
    matched: dict[str, int]

    def by_governor(self) -> dict[str, list[str]]:
        """The pods of each claim that governs some."""
        pods: dict[str, list[str]] = {}
        for pod, claim in self.governor.items():
            pods.setdefault(claim, []).append(pod)
        return pods


def find_governor(
    labels: Labels,
    controller: TargetRef | None,
    claims: Iterable[TargetClaim],
    owners: Owners,
    *,
    owner_required: bool = True,
) -> TargetClaim | None:
    """The claim that governs one pod, of the claims of its namespace; `controller` is the pod's direct one."""
    topmost = owners.follow(controller).topmost if controller else None
    fitting = (claim for claim in claims if _fits(claim, labels, topmost, owner_required=owner_required))
    return min(fitting, key=lambda claim: claim.seniority, default=None)


def assign_governors(
    claims: Sequence[TargetClaim], pods: Sequence[ObservedPod], owners: Owners, *, owner_required: bool = False
) -> Governance:
    """Assign the pods of one namespace to its claims."""
    ranked = sorted(claims, key=lambda claim: claim.seniority)
    groups = _PodGroups(_group_pods(pods, owners), claims)
    governor: dict[str, str] = {}
    rivals: dict[str, tuple[str, ...]] = {}
    matched: dict[str, int] = {}
    for rank, claim in enumerate(ranked):
        governing: set[int] = set()
        count = 0
        for group in groups.list_candidates(claim):
            if not _fits(claim, group.labels, group.topmost, owner_required=owner_required):
                continue
            if group.governor is None:
                group.governor = rank
                for pod in group.pods:
                    governor[pod] = claim.name
                count += len(group.pods)
            else:
                governing.add(group.governor)
        matched[claim.name] = count
        if governing:
            rivals[claim.name] = tuple(ranked[position].name for position in sorted(governing))
    return Governance(governor, rivals, matched)


def _fits(claim: TargetClaim, labels: Labels, topmost: TargetRef | None, *, owner_required: bool) -> bool:
    """The rule, for one claim and one pod of its namespace."""
    selector = claim.selector
    if selector is None:
        return False
    if topmost is None:
        # A selector without requirements says nothing about a pod: then its owner has to.
        return not owner_required and bool(selector.requirements) and selector.matches(labels)
    return topmost.is_same(claim.target) and selector.matches(labels)


class _PodGroup:
    """Pods, by name, that have their labels and their direct controller in common."""

    __slots__ = ("governor", "labels", "pods", "topmost")

    def __init__(self, labels: Labels, topmost: TargetRef | None) -> None:
        self.labels = labels
        self.topmost = topmost
        self.pods: list[str] = []
        self.governor: int | None = None


def _group_pods(pods: Iterable[ObservedPod], owners: Owners) -> Iterable[_PodGroup]:
    groups: dict[tuple[str, ...], _PodGroup] = {}
    topmost: dict[tuple[str, str], TargetRef | None] = {("", ""): None}
    for pod in pods:
        metadata = pod.metadata
        labels = metadata.labels
        controller = metadata.controller
        direct = (controller.kind, controller.name) if controller else ("", "")
        # A flat tuple of text, because the cycle collector leaves those alone: with sets the same takes twice as long.
        # The API server writes labels in one order; in another they would only make one more group.
        key = (*direct, *labels, *labels.values())
        group = groups.get(key)
        if group is None:
            if direct not in topmost:
                start = build_controller_ref(metadata.namespace, controller)
                topmost[direct] = owners.follow(start).topmost if start else None
            group = groups[key] = _PodGroup(labels, topmost[direct])
        group.pods.append(metadata.name)
    return groups.values()


class _PodGroups:
    """The groups of a namespace by topmost controller; those without one by the labels that selectors require."""

    def __init__(self, groups: Iterable[_PodGroup], claims: Iterable[TargetClaim]) -> None:
        self._owned: dict[tuple[str, str], list[_PodGroup]] = {}
        self._loose: list[_PodGroup] = []
        for group in groups:
            if group.topmost is not None:
                self._owned.setdefault((group.topmost.kind, group.topmost.name), []).append(group)
            else:
                self._loose.append(group)
        label_pairs = _list_required_labels(claims) if self._loose else ()
        self._labelled: dict[tuple[str, str], list[_PodGroup]] = {pair: [] for pair in label_pairs}
        for group in self._loose:
            for pair in group.labels.items() & self._labelled.keys():
                self._labelled[pair].append(group)

    def list_candidates(self, claim: TargetClaim) -> Iterator[_PodGroup]:
        """Groups that the claim may fit; it fits no others."""
        yield from self._owned.get((claim.target.kind, claim.target.name), ())
        if self._loose and claim.selector is not None:
            yield from self._list_rarest(claim.selector)

    def _list_rarest(self, selector: Selector) -> Iterator[_PodGroup]:
        """Groups without a known owner that have the rarest label the selector requires; all if it requires none."""
        fewest: Iterable[Sequence[_PodGroup]] = (self._loose,)
        count = len(self._loose)
        for requirement in selector.requirements:
            if requirement.operator in _EQUALITY:
                groups_with_label = [self._labelled[requirement.key, value] for value in requirement.values]
                size = sum(map(len, groups_with_label))
                if size < count:
                    fewest, count = groups_with_label, size
        for groups in fewest:
            yield from groups


def _list_required_labels(claims: Iterable[TargetClaim]) -> Iterator[tuple[str, str]]:
    """Every label, with its value, that a selector of a claim requires."""
    for claim in claims:
        for requirement in claim.selector.requirements if claim.selector else ():
            if requirement.operator in _EQUALITY:
                yield from ((requirement.key, value) for value in requirement.values)
