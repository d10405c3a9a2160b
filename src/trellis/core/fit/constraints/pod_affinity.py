"""Required pod affinity and anti-affinity: the terms of a pod, its profile for terms of others, and the rules.

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
from trellis.core.fit.constraints.topology_domains import DomainRule, count_pods_per_domain
from trellis.core.usage.columns import IntColumn

_IN: Final = "In"
_NOT_IN: Final = "NotIn"


class PodQuery(msgspec.Struct, frozen=True, gc=False):
    """Pods with these labels, in one of these namespaces or in one that the selector of namespaces chooses."""

    namespaces: tuple[str, ...]
    selector: Selector
    namespace_selector: Selector = Selector.nothing()

    def matches(self, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
        """Whether a pod in that namespace with these labels is selected."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


class PodTerm(msgspec.Struct, frozen=True, gc=False):
    """Pods in the same domain: on nodes that have the same value of the label `key`."""

    query: PodQuery
    key: str


def read_affinity_terms(spec: PodSpec, metadata: ObjectMeta) -> tuple[PodTerm, ...]:
    """The terms of the required affinity: a pod that matches all of them must be in the domain of each."""
    affinity = spec.affinity.pod_affinity if spec.affinity is not None else None
    return _terms(affinity.required, metadata, "podAffinity") if affinity is not None else ()


def read_anti_affinity_terms(spec: PodSpec, metadata: ObjectMeta) -> tuple[PodTerm, ...]:
    """The terms of the required anti-affinity: no pod that matches a term may be in its domain."""
    affinity = spec.affinity.pod_anti_affinity if spec.affinity is not None else None
    return _terms(affinity.required, metadata, "podAntiAffinity") if affinity is not None else ()


def build_selector_with_keys(
    selector: LabelSelector | None, labels: Labels, match: Iterable[str], mismatch: Iterable[str] = ()
) -> Selector:
    """A selector, narrowed to the values that the pod itself has of some labels; None selects nothing."""
    if selector is None:
        return Selector.nothing()
    expressions = list(selector.match_expressions)
    # The API server has done it for a created pod, whose labels may have changed since.
    present = {(expression.key, expression.operator) for expression in expressions}
    for keys, operator in ((match, _IN), (mismatch, _NOT_IN)):
        missing = (key for key in keys if key in labels and (key, operator) not in present)
        expressions.extend(LabelSelectorRequirement(key, operator, (labels[key],)) for key in missing)
    return convert_selector(LabelSelector(selector.match_labels, tuple(expressions)))


def read_selector(path: str, selector: Callable[[], Selector]) -> Selector:
    """A selector; the error for one that cannot be read has its path."""
    try:
        return selector()
    except InvalidSelector as error:
        raise InvalidSelector(error.value, f"{path}: {error.rule}") from error


def _terms(written: Iterable[PodAffinityTerm], metadata: ObjectMeta, path: str) -> tuple[PodTerm, ...]:
    return tuple(_term(term, metadata, f"spec.affinity.{path}.required[{at}]") for at, term in enumerate(written))


def _term(term: PodAffinityTerm, metadata: ObjectMeta, path: str) -> PodTerm:
    in_own_namespace = not term.namespaces and term.namespace_selector is None
    namespaces = (metadata.namespace,) if in_own_namespace else tuple(sorted(set(term.namespaces)))
    match, mismatch, labels = term.match_label_keys, term.mismatch_label_keys, metadata.labels
    selector = read_selector(path, lambda: build_selector_with_keys(term.label_selector, labels, match, mismatch))
    namespace_selector = read_selector(f"{path}.namespaceSelector", lambda: convert_selector(term.namespace_selector))
    return PodTerm(PodQuery(namespaces, selector, namespace_selector), term.topology_key)


class PodProfile(msgspec.Struct, frozen=True, gc=False):
    """What rules of other pods match. A pod that is `leaving` still excludes others, but is not spread."""

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    leaving: bool = False

    @classmethod
    def of(cls, pod: Pod) -> PodProfile:
        """The profile of a placed pod. Terms that cannot be read exclude no pod."""
        try:
            return read_pod_profile(pod.spec, pod.metadata)
        except InvalidSelector:
            return read_pod_profile(PodSpec(), pod.metadata)


def read_pod_profile(spec: PodSpec, metadata: ObjectMeta) -> PodProfile:
    """The profile of any pod. Raises `InvalidSelector` for terms that cannot be read."""
    return PodProfile(
        namespace=metadata.namespace,
        labels=tuple(sorted(metadata.labels.items())),
        anti_affinity=read_anti_affinity_terms(spec, metadata),
        leaving=metadata.deletion_timestamp is not None,
    )


class AntiAffinityRule(DomainRule):
    """Closed in domains with a pod that this pod excludes, or that excludes this pod."""

    def __init__(self, codes: IntColumn, size: int, counts: npt.NDArray[np.int32], *, from_self: bool) -> None:
        is_open = count_pods_per_domain(codes, size, counts) == 0
        # A node without the label is in no domain.
        is_open[0] = True
        super().__init__(codes, is_open, changes=from_self)

    def record_placed(self, number: int) -> bool:
        """Close the domain of a pod that excludes equal pods."""
        domain = self.codes[number]
        if not self.changes or domain == 0:
            return False
        self.open[domain] = False
        return True


class AffinityRule(DomainRule):
    """Open in domains with a matching pod; for the `first` pod of a group everywhere, until it is placed."""

    def __init__(self, codes: IntColumn, size: int, counts: npt.NDArray[np.int32], *, first: bool) -> None:
        is_open = np.ones(size, dtype=np.bool_) if first else count_pods_per_domain(codes, size, counts) > 0
        is_open[0] = False
        super().__init__(codes, is_open, changes=first)

    def record_placed(self, number: int) -> bool:
        """Close all domains but that of the first pod."""
        if not self.changes:
            return False
        self.changes = False
        self.open[:] = False
        self.open[self.codes[number]] = True
        return True
