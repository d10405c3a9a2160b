"""The pod selector of a target, and an index from a pod's labels to the objects whose target selects it.

Well-known kinds are recognized by `kind` alone, in any `apiVersion`, and have their selector in their spec; a CronJob
has none, and the labels of its pod template take its place. For any other kind the scale subresource has the selector.
Nothing but the selector is read there, and nothing is ever changed. A target must also be the topmost controller of its
kind: an autoscaler for a ReplicaSet whose Deployment replaces it tomorrow would then have no pods.

The index files a selector under one of the labels that it requires: the one under which fewest others stand, because a
label such as the name of a chart may be on every pod of a namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from trellis.api.kube.meta import KubeObject, LabelSelector
from trellis.api.kube.observed_workloads import (
    ObservedCronJob,
    ObservedObject,
    ObservedReplicationController,
    ObservedWorkload,
)
from trellis.api.kube.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from trellis.base.errors import InternalError, InvalidSelector
from trellis.base.selectors import MatchExpression, Selector, parse_selector, selector_from_object
from trellis.core.cluster.owners import OwnerChain, Owners, TargetRef, describe_missing
from trellis.core.cluster.store import ObjectKey
from trellis.core.cluster.target_problems import (
    NO_TARGET_REF,
    TARGET_NOT_FOUND,
    TARGET_NOT_TOPMOST,
    TARGET_OWNERS_UNKNOWN,
    TARGET_SELECTOR_UNREADABLE,
    TARGET_SELECTS_NOTHING,
    TARGET_UNREACHABLE,
    TargetProblem,
    build_target_problem,
)

SelectorOrProblem: TypeAlias = Selector | TargetProblem


def resolve_selector(target: TargetRef | None, owners: Owners) -> SelectorOrProblem:
    """The selector of a target's pods, or why it cannot be used as a target.

    A selector without requirements stands for "by owner alone": a CronJob whose pods have no labels.
    """
    if target is None or not (target.kind and target.name):
        return build_target_problem(NO_TARGET_REF, "targetRef not defined")
    try:
        selector = _select_by_kind(target, owners) if target.is_well_known else _select_by_scale(target, owners)
    except InvalidSelector as error:
        return build_target_problem(
            TARGET_SELECTOR_UNREADABLE, f"the selector of {target.kind} {_qualified_name(target)}: {error}"
        )
    if isinstance(selector, TargetProblem):
        return selector
    return _check_topmost(target, owners.follow(target)) or selector


def _select_by_kind(target: TargetRef, owners: Owners) -> SelectorOrProblem:
    workload = owners.find(target)
    if workload is None:
        return build_target_problem(TARGET_NOT_FOUND, describe_missing(target))
    if isinstance(workload, CronJob | ObservedCronJob):
        return selector_from_object(workload.spec.job_template.spec.template.metadata.labels)
    selector = read_selector(workload)
    if not selector.requirements:
        return build_target_problem(
            TARGET_SELECTS_NOTHING, f"{target.kind} {_qualified_name(target)} has an empty selector"
        )
    return selector


def read_selector(workload: KubeObject | ObservedObject) -> Selector:
    """The selector in the spec of a workload."""
    match workload:
        case ReplicationController() | ObservedReplicationController():
            return selector_from_object(workload.spec.selector)
        case Deployment() | ReplicaSet() | StatefulSet() | DaemonSet() | Job() | ObservedWorkload():
            return convert_selector(workload.spec.selector)
        case _:
            raise InternalError(f"{type(workload).__name__} is not a workload with a pod selector")


def convert_selector(selector: LabelSelector | None) -> Selector:
    """A selector in its object form; none at all selects nothing."""
    if selector is None:
        return Selector.nothing()
    expressions = [
        MatchExpression(expression.key, expression.operator, expression.values)
        for expression in selector.match_expressions
    ]
    return selector_from_object(selector.match_labels, expressions)


def _select_by_scale(target: TargetRef, owners: Owners) -> SelectorOrProblem:
    scale = owners.scale(target)
    if scale is None:
        return build_target_problem(
            TARGET_UNREACHABLE, f"the scale subresource of {_qualified_name(target)} has not been read yet"
        )
    if scale.problem is not None:
        return scale.problem
    if not scale.selector:
        message = f"resource {_qualified_name(target)} has an empty selector for scale sub-resource"
        return build_target_problem(TARGET_SELECTS_NOTHING, message)
    return parse_selector(scale.selector)


def _check_topmost(target: TargetRef, chain: OwnerChain) -> TargetProblem | None:
    if chain.topmost is not None and chain.topmost.is_same(target):
        return None
    rule = "a topmost well-known or scalable controller"
    if chain.topmost is not None:
        message = f"The target {target} has a parent controller but it should point to {rule}: {chain.topmost}"
        return TargetProblem(TARGET_NOT_TOPMOST, message)
    cause = chain.problem or f"the scale subresource of {chain.unread_scale} has not been read yet"
    return TargetProblem(TARGET_OWNERS_UNKNOWN, f"Error checking if target {target} is {rule}: {cause}")


def _qualified_name(target: TargetRef) -> str:
    return f"{target.namespace}/{target.name}"


_IndexEntry: TypeAlias = tuple[str, str, str]

# The entry of selectors that require no label value: they are matched against every pod of their namespace.
_ANY: Final = ""


class TargetSelectorIndex:
    """The newest selectors of all targets, indexed by label."""

    def __init__(self) -> None:
        self._selectors: dict[ObjectKey, Selector] = {}
        self._labels_by_key: dict[ObjectKey, tuple[_IndexEntry, ...]] = {}
        self._keys_by_label: dict[_IndexEntry, dict[ObjectKey, None]] = {}

    def put(self, key: ObjectKey, selector: Selector) -> None:
        """Store the selector of an object's target."""
        if self._selectors.get(key) == selector:
            return
        self.forget(key)
        self._selectors[key] = selector
        self._labels_by_key[key] = index_labels = self._choose_labels(key[0], selector)
        for index_label in index_labels:
            self._keys_by_label.setdefault(index_label, {})[key] = None

    def forget(self, key: ObjectKey) -> None:
        """Remove the selector of an object."""
        self._selectors.pop(key, None)
        for index_label in self._labels_by_key.pop(key, ()):
            keys = self._keys_by_label[index_label]
            del keys[key]
            if not keys:
                del self._keys_by_label[index_label]

    def clear(self) -> None:
        """Remove all selectors."""
        self._selectors.clear()
        self._labels_by_key.clear()
        self._keys_by_label.clear()

    def find_matching(self, namespace: str, labels: Mapping[str, str]) -> list[ObjectKey]:
        """The objects whose pods include one with these labels."""
        index_labels = [(namespace, _ANY, _ANY), *((namespace, key, value) for key, value in labels.items())]
        candidates = [key for index_label in index_labels for key in self._keys_by_label.get(index_label, ())]
        return [key for key in candidates if self._selectors[key].matches(labels)]

    def _choose_labels(self, namespace: str, selector: Selector) -> tuple[_IndexEntry, ...]:
        if selector.selects_nothing:
            return ()
        choices = [
            tuple((namespace, requirement.key, value) for value in requirement.values)
            for requirement in selector.value_requirements
        ]
        sizes = [
            sum(len(self._keys_by_label.get(index_label, ())) for index_label in index_labels)
            for index_labels in choices
        ]
        return choices[sizes.index(min(sizes))] if choices else ((namespace, _ANY, _ANY),)
