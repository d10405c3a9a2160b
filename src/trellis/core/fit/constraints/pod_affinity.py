"""Required pod affinity and anti-affinity: the terms of a pod, what other pods' terms see of it, and their rules.

The rules of `AffinityTerm.Matches` and `InterPodAffinity` in Kubernetes 1.36. The API server writes `matchLabelKeys`
and `mismatchLabelKeys` into the selector when it creates a pod; a template has only the keys, which are resolved here.
Other pods see a pod's namespace, its labels and its own anti-affinity: a pod that was there first keeps others out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from trellis.api.kube.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from trellis.api.kube.placement import PodAffinityTerm
from trellis.api.kube.pods import Pod, PodSpec
from trellis.api.kube.slices import Labels
from trellis.base.errors import InvalidSelector
from trellis.base.selectors import Selector
from trellis.core.cluster.target_selectors import convert_selector
from trellis.core.fit.constraints.topology_domains import DomainRule, pods_per_domain
from trellis.core.usage.columns import IntColumn

_IN: Final = "In"
_NOT_IN: Final = "NotIn"


class PodQuery(msgspec.Struct, frozen=True, gc=False):
    """Pods with these labels, in one of these namespaces or in one that the selector of namespaces chooses."""

    namespaces: tuple[str, ...]
    selector: Selector
    namespace_selector: Selector = Selector.nothing()

    def means(self, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
        """Whether a pod in that namespace is meant."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


class PodTerm(msgspec.Struct, frozen=True, gc=False):
    """Pods in the same domain: on nodes that have the same value of the label `key`."""

    query: PodQuery
    key: str


def affinity_terms(spec: PodSpec, metadata: ObjectMeta) -> tuple[PodTerm, ...]:
    """The terms of the required affinity: one pod that all of them mean must be in the domain of each."""
    affinity = spec.affinity.pod_affinity if spec.affinity is not None else None
    return _terms(affinity.required, metadata, "podAffinity") if affinity is not None else ()


def anti_affinity_terms(spec: PodSpec, metadata: ObjectMeta) -> tuple[PodTerm, ...]:
    """The terms of the required anti-affinity: of the pods that one means, none must be in its domain."""
    affinity = spec.affinity.pod_anti_affinity if spec.affinity is not None else None
    return _terms(affinity.required, metadata, "podAntiAffinity") if affinity is not None else ()


def selector_with_keys(
    written: LabelSelector | None, labels: Labels, match: Iterable[str], mismatch: Iterable[str] = ()
) -> Selector:
    """A selector, narrowed to the values that the pod itself has of some labels. None at all selects nothing."""
    if written is None:
        return Selector.nothing()
    expressions = list(written.match_expressions)
    # Of a pod that was made, the API server has done it: its labels may have been changed since.
    done = {(expression.key, expression.operator) for expression in expressions}
    for keys, operator in ((match, _IN), (mismatch, _NOT_IN)):
        new = (key for key in keys if key in labels and (key, operator) not in done)
        expressions.extend(LabelSelectorRequirement(key, operator, (labels[key],)) for key in new)
    return convert_selector(LabelSelector(written.match_labels, tuple(expressions)))


def read_selector(place: str, selector: Callable[[], Selector]) -> Selector:
    """A selector; one that cannot be read is refused with its place."""
    try:
        return selector()
    except InvalidSelector as error:
        raise InvalidSelector(error.value, f"{place}: {error.rule}") from error


def _terms(written: Iterable[PodAffinityTerm], metadata: ObjectMeta, place: str) -> tuple[PodTerm, ...]:
    return tuple(_term(term, metadata, f"spec.affinity.{place}.required[{at}]") for at, term in enumerate(written))


def _term(written: PodAffinityTerm, metadata: ObjectMeta, place: str) -> PodTerm:
    own = not written.namespaces and written.namespace_selector is None
    namespaces = (metadata.namespace,) if own else tuple(sorted(set(written.namespaces)))
    match, mismatch, labels = written.match_label_keys, written.mismatch_label_keys, metadata.labels
    selector = read_selector(place, lambda: selector_with_keys(written.label_selector, labels, match, mismatch))
    of_namespaces = read_selector(f"{place}.namespaceSelector", lambda: convert_selector(written.namespace_selector))
    return PodTerm(PodQuery(namespaces, selector, of_namespaces), written.topology_key)


class PodProfile(msgspec.Struct, frozen=True, gc=False):
    """A pod among others. One that is `leaving` still keeps others away, but is not counted where pods are spread."""

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    apart: tuple[PodTerm, ...] = ()
    leaving: bool = False

    @classmethod
    def of(cls, pod: Pod) -> PodProfile:
        """Of a pod that has its node. Terms that cannot be read keep no pod away."""
        try:
            return read_pod_profile(pod.spec, pod.metadata)
        except InvalidSelector:
            return read_pod_profile(PodSpec(), pod.metadata)


def read_pod_profile(spec: PodSpec, metadata: ObjectMeta) -> PodProfile:
    """Of any pod; terms that cannot be read are refused."""
    return PodProfile(
        namespace=metadata.namespace,
        labels=tuple(sorted(metadata.labels.items())),
        apart=anti_affinity_terms(spec, metadata),
        leaving=metadata.deletion_timestamp is not None,
    )


class AntiAffinityRule(DomainRule):
    """Closed where there is a pod to keep away from, or one that keeps this one away."""

    def __init__(self, codes: IntColumn, size: int, counts: npt.NDArray[np.int32], *, from_self: bool) -> None:
        is_open = pods_per_domain(codes, size, counts) == 0
        # A node without the label is in no domain.
        is_open[0] = True
        super().__init__(codes, is_open, changes=from_self)

    def take(self, number: int) -> bool:
        """Pods that keep away from their like close their domain."""
        domain = self.codes[number]
        if not self.changes or domain == 0:
            return False
        self.open[domain] = False
        return True


class AffinityRule(DomainRule):
    """Open where there is a pod to be near to; for the `first` of a group everywhere, until it has a place."""

    def __init__(self, codes: IntColumn, size: int, counts: npt.NDArray[np.int32], *, first: bool) -> None:
        is_open = np.ones(size, dtype=np.bool_) if first else pods_per_domain(codes, size, counts) > 0
        is_open[0] = False
        super().__init__(codes, is_open, changes=first)

    def take(self, number: int) -> bool:
        """All others follow the first."""
        if not self.changes:
            return False
        self.changes = False
        self.open[:] = False
        self.open[self.codes[number]] = True
        return True
