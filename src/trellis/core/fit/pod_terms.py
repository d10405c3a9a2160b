"""Which other pods does a pod want to be near to, or away from?

The rules of `AffinityTerm.Matches` in Kubernetes 1.36, and what the API server writes into a selector for
`matchLabelKeys` and `mismatchLabelKeys` when a pod is made: a template has only the keys yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from trellis.api.kube.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from trellis.api.kube.placement import PodAffinityTerm
from trellis.api.kube.pods import PodSpec
from trellis.api.kube.slices import Labels
from trellis.base.errors import InvalidSelector
from trellis.base.selectors import Selector
from trellis.core.model.selection import selector_of

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


def near_terms(spec: PodSpec, metadata: ObjectMeta) -> tuple[PodTerm, ...]:
    """The terms of the required affinity: one pod that all of them mean must be in the domain of each."""
    affinity = spec.affinity.pod_affinity if spec.affinity is not None else None
    return _terms(affinity.required, metadata, "podAffinity") if affinity is not None else ()


def apart_terms(spec: PodSpec, metadata: ObjectMeta) -> tuple[PodTerm, ...]:
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
    done = {(each.key, each.operator) for each in expressions}
    for keys, operator in ((match, _IN), (mismatch, _NOT_IN)):
        new = (key for key in keys if key in labels and (key, operator) not in done)
        expressions.extend(LabelSelectorRequirement(key, operator, (labels[key],)) for key in new)
    return selector_of(LabelSelector(written.match_labels, tuple(expressions)))


def read(place: str, selector: Callable[[], Selector]) -> Selector:
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
    selector = read(place, lambda: selector_with_keys(written.label_selector, labels, match, mismatch))
    of_namespaces = read(f"{place}.namespaceSelector", lambda: selector_of(written.namespace_selector))
    return PodTerm(PodQuery(namespaces, selector, of_namespaces), written.topology_key)
