"""The sizes that VPAs and Hvpas recommend for pods on nodes, kept current change by change.

A size is computed once when the pod, its VPA or Hvpa, or a LimitRange has changed, and pods of one workload share it.
Without VPAs and Hvpas nothing is computed. After a change of thousands of them at once, the sizes follow over several
passes. Governors are found through well-known kinds of workloads; a pod whose chain of controllers leads through other
kinds counts as ungoverned. A chain is followed again when one of its pods changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

import msgspec

from trellis.api.kube.pods import Pod, PodSpec
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.slices import Labels
from trellis.api.resolve import UpdateMode
from trellis.core.admission.decisions import GovernorIndex
from trellis.core.admission.replacement_size import ReplacementSize, compute_replacement_size
from trellis.core.boost.boosted_size import BoostSettings
from trellis.core.cluster.owners import ObjectLookup, Owners, TargetRef, build_controller_ref
from trellis.core.cluster.pod_annotations import BOOST_ANNOTATION_PREFIX
from trellis.core.cluster.store import ObjectKey
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges
from trellis.core.sizing.governors import Governor

# Modes in which the updater resizes running pods, and those in which it evicts a pod that it cannot resize.
_UPDATING: Final = (UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE)
_EVICTING: Final = (UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE)
# The updater's default for VPAs that have no `minReplicas`.
_MIN_REPLICAS: Final = 2
# Pods whose sizes are found in one pass, and sizes computed for them: a tenth of a second.
_MAX_PODS: Final = 5_000
_MAX_COMPUTED: Final = 1_000


class RecommendedSize(msgspec.Struct, frozen=True):
    """Requests by container that differ from the spec of a pod, as millicores and bytes.

    `starting` is what a replacement starts with, `updated` what the updater gives to the pod itself; empty if the
    update mode does not change running pods. `is_evictable` says that the updater evicts the pod if it cannot be
    resized.
    """

    starting: Mapping[str, ResourceAmounts] = {}
    updated: Mapping[str, ResourceAmounts] = {}
    is_evictable: bool = False


NO_RECOMMENDED_SIZE: Final = RecommendedSize()

# Kind, namespace and name of a VPA or an Hvpa.
GovernorKey: TypeAlias = tuple[str, str, str]


def _no_governors() -> Iterable[tuple[GovernorKey, Governor]]:
    return ()


def _no_limit_ranges(_namespace: str) -> Sequence[LimitRange]:
    return ()


class SizingSources(msgspec.Struct, frozen=True):
    """Everything that sizes depend on besides pods, as it is at one moment; may be read in another thread."""

    list_governors: Callable[[], Iterable[tuple[GovernorKey, Governor]]] = _no_governors
    workloads: Mapping[str, ObjectLookup] = MappingProxyType({})
    find_limit_ranges: Callable[[str], Sequence[LimitRange]] = _no_limit_ranges
    boosts: BoostSettings = BoostSettings()


NO_SIZING: Final = SizingSources()


class _HasPod(Protocol):
    @property
    def pod(self) -> Pod: ...


class _ComputedSize(msgspec.Struct, frozen=True):
    """A computed size and its inputs."""

    governor: Governor
    limits: NamespaceLimits
    spec: PodSpec
    boosts: Labels
    size: ReplacementSize


class _Controller(msgspec.Struct):
    """A controller with pods on nodes: the workload that a VPA would target, and the last size computed.

    `min_replicas` is how many pods must live for one of them to be evicted.
    """

    target: TargetRef
    pods: dict[ObjectKey, None]
    min_replicas: int = 0
    computed: _ComputedSize | None = None


class RecommendedSizes:
    """Finds the sizes that have changed. It is used by one thread only.

    `max_pods` and `max_computed` bound the work of one call.
    """

    def __init__(self, max_pods: int = _MAX_PODS, max_computed: int = _MAX_COMPUTED) -> None:
        self._max_pods = max_pods
        self._max_computed = max_computed
        self._sizes: dict[ObjectKey, RecommendedSize] = {}
        self._governors: dict[GovernorKey, Governor] = {}
        self._index = GovernorIndex()
        self._limits: dict[str, tuple[Sequence[LimitRange], NamespaceLimits]] = {}
        # Pods to be computed, and those whose chain of controllers is not complete yet.
        self._changed: dict[ObjectKey, None] = {}
        self._unresolved: dict[ObjectKey, None] = {}
        # Pods whose number of replicas has become sufficient, or is not any more.
        self._recounted: dict[ObjectKey, None] = {}
        self._controllers = _Controllers()

    def note_changes(self, pods: Mapping[ObjectKey, Pod | None]) -> None:
        """Note that pods have changed; None for one that was deleted."""
        for key, pod in pods.items():
            if pod is not None:
                self._changed[key] = None
            else:
                self._changed.pop(key, None)
                self._sizes.pop(key, None)
                self._forget(key)

    def find_changes(
        self, placed: Mapping[ObjectKey, _HasPod], sources: SizingSources
    ) -> dict[ObjectKey, RecommendedSize | None]:
        """The sizes that differ from those returned before, of pods on nodes; None for pods without one."""
        self._take_governors(placed, sources)
        if not self._governors and not self._sizes:
            self._changed.clear()
            return {}
        self._take_limits(sources)
        governed = self._find_governors(placed, sources)
        remaining = self._max_computed
        changes: dict[ObjectKey, RecommendedSize | None] = {}
        for key, found in governed.items():
            size = NO_RECOMMENDED_SIZE
            if found is not None:
                pod, controller, governor = found
                if not self._is_computed(controller, pod, governor):
                    if remaining <= 0:
                        self._changed[key] = None
                        continue
                    remaining -= 1
                    self._compute(controller, pod, governor, sources.boosts)
                size = _build_size(controller, governor)
            if size != self._sizes.get(key, NO_RECOMMENDED_SIZE):
                self._put_size(key, size, changes)
        return changes

    def _put_size(
        self, key: ObjectKey, size: RecommendedSize, changes: dict[ObjectKey, RecommendedSize | None]
    ) -> None:
        if size == NO_RECOMMENDED_SIZE:
            del self._sizes[key]
            changes[key] = None
        else:
            self._sizes[key] = changes[key] = size

    def _find_governors(
        self, placed: Mapping[ObjectKey, _HasPod], sources: SizingSources
    ) -> dict[ObjectKey, tuple[Pod, _Controller, Governor] | None]:
        """The governors of pods to be computed, among them those whose number of replicas has become sufficient."""
        lookup = _GovernorLookup(self._index, sources)
        governed: dict[ObjectKey, tuple[Pod, _Controller, Governor] | None] = {}
        changed = [*islice(self._changed, self._max_pods)]
        for keys in ((*changed, *self._unresolved), self._recounted):
            for key in tuple(keys):
                self._changed.pop(key, None)
                if key in governed:
                    continue
                governed[key] = self._find_governor(key, placed[key].pod, lookup) if key in placed else None
                if key not in placed:
                    self._forget(key)
        self._recounted.clear()
        return governed

    def _take_governors(self, placed: Mapping[ObjectKey, _HasPod], sources: SizingSources) -> None:
        """Index the governors that changed. Pods of their workloads, and of new namespaces, are to be computed."""
        governors = dict(sources.list_governors())
        gone = [(key, None) for key in self._governors if key not in governors]
        changed = [(key, governor) for key, governor in governors.items() if self._governors.get(key) is not governor]
        new_namespaces = {key[1] for key, _ in changed if not self._index.governs_namespace(key[1])}
        for key, governor in (*gone, *changed):
            self._index.put(*key, governor)
            for one in (self._governors.get(key), governor):
                if one is not None:
                    self._changed.update(self._controllers.list_pods_of_target(one.claim.target))
        self._governors = governors
        if new_namespaces:
            self._changed.update((key, None) for key in placed if key[0] in new_namespaces)

    def _take_limits(self, sources: SizingSources) -> None:
        for namespace in {namespace for _, namespace, _ in self._governors}:
            ranges, known = sources.find_limit_ranges(namespace), self._limits.get(namespace)
            if known is not None and known[0] == ranges:
                continue
            self._limits[namespace] = ranges, read_limit_ranges(ranges)
            if known is not None:
                self._changed.update(self._controllers.list_pods_in(namespace))

    def _find_governor(
        self, key: ObjectKey, pod: Pod, lookup: _GovernorLookup
    ) -> tuple[Pod, _Controller, Governor] | None:
        reference = build_controller_ref(key[0], pod.metadata.controller)
        if reference is None or not self._index.governs_namespace(key[0]):
            self._forget(key)
            return None
        target, is_complete = lookup.find_target(reference)
        if target is None:
            self._forget(key)
            if not is_complete:
                self._unresolved[key] = None
            return None
        self._unresolved.pop(key, None)
        controller, has_moved = self._controllers.put_pod(key, reference, target)
        governor = lookup.find_governor(target, pod.metadata.labels)
        if governor is None:
            return None
        minimum = governor.vpa.min_replicas if governor.vpa.min_replicas is not None else _MIN_REPLICAS
        if has_moved and len(controller.pods) == minimum:
            self._recounted.update(controller.pods)
        controller.min_replicas = minimum
        return pod, controller, governor

    def _is_computed(self, controller: _Controller, pod: Pod, governor: Governor) -> bool:
        last = controller.computed
        return (
            last is not None
            and last.governor is governor
            and last.limits is self._limits[governor.claim.namespace][1]
            and last.boosts == _select_boosts(pod)
            and last.spec.containers == pod.spec.containers
            and last.spec.init_containers == pod.spec.init_containers
            and last.spec.resources == pod.spec.resources
        )

    def _compute(self, controller: _Controller, pod: Pod, governor: Governor, boosts: BoostSettings) -> None:
        limits = self._limits[governor.claim.namespace][1]
        size = compute_replacement_size(pod, governor, limits, boosts)
        controller.computed = _ComputedSize(governor, limits, pod.spec, _select_boosts(pod), size)

    def _forget(self, key: ObjectKey) -> None:
        """Forget the controller of a pod."""
        self._unresolved.pop(key, None)
        controller = self._controllers.remove_pod(key)
        if controller is not None and len(controller.pods) == controller.min_replicas - 1:
            self._recounted.update(controller.pods)


def _build_size(controller: _Controller, governor: Governor) -> RecommendedSize:
    size = controller.computed.size if controller.computed is not None else ReplacementSize()
    has_replicas = len(controller.pods) >= controller.min_replicas
    return RecommendedSize(
        size.starting,
        size.recommended if governor.vpa.mode in _UPDATING else {},
        has_replicas and governor.vpa.mode in _EVICTING,
    )


def _select_boosts(pod: Pod) -> Labels:
    """The annotations that say what containers had before their boosts."""
    annotations = pod.metadata.annotations
    return {key: value for key, value in annotations.items() if key.startswith(BOOST_ANNOTATION_PREFIX)}


class _Controllers:
    """The controllers of pods on nodes, with their pods."""

    def __init__(self) -> None:
        self._controllers: dict[TargetRef, _Controller] = {}
        self._by_pod: dict[ObjectKey, TargetRef] = {}
        self._by_target: dict[tuple[str, str, str], dict[TargetRef, None]] = {}

    def list_pods_of_target(self, target: TargetRef) -> dict[ObjectKey, None]:
        """The pods of a workload."""
        controllers = self._by_target.get(_target_key(target), {})
        return {key: None for reference in controllers for key in self._controllers[reference].pods}

    def list_pods_in(self, namespace: str) -> dict[ObjectKey, None]:
        """The pods of all controllers of a namespace."""
        return {key: None for key in self._by_pod if key[0] == namespace}

    def put_pod(self, key: ObjectKey, reference: TargetRef, target: TargetRef) -> tuple[_Controller, bool]:
        """The controller of a pod, and whether the pod is new to it."""
        if self._by_pod.get(key) != reference:
            self.remove_pod(key)
        controller = self._controllers.get(reference)
        if controller is None:
            controller = self._controllers[reference] = _Controller(target, {})
            self._by_target.setdefault(_target_key(target), {})[reference] = None
        elif controller.target != target:
            self._remove_target(reference, controller.target)
            controller.target = target
            self._by_target.setdefault(_target_key(target), {})[reference] = None
        is_new = key not in controller.pods
        controller.pods[key] = None
        self._by_pod[key] = reference
        return controller, is_new

    def remove_pod(self, key: ObjectKey) -> _Controller | None:
        """Remove a pod; returns its controller."""
        reference = self._by_pod.pop(key, None)
        if reference is None:
            return None
        controller = self._controllers[reference]
        del controller.pods[key]
        if not controller.pods:
            del self._controllers[reference]
            self._remove_target(reference, controller.target)
        return controller

    def _remove_target(self, reference: TargetRef, target: TargetRef) -> None:
        references = self._by_target[_target_key(target)]
        del references[reference]
        if not references:
            del self._by_target[_target_key(target)]


def _target_key(target: TargetRef) -> tuple[str, str, str]:
    # The version of a target is not in it: people write any that the kind ever had.
    return target.namespace, target.kind, target.name


class _GovernorLookup:
    """Finds the governors of pods by the workloads of one moment; each chain is followed once."""

    def __init__(self, index: GovernorIndex, sources: SizingSources) -> None:
        self._index = index
        self._owners = Owners(sources.workloads, {})
        self._chains: dict[TargetRef, tuple[TargetRef | None, bool]] = {}
        self._selected: set[TargetRef] = set()

    def find_target(self, controller: TargetRef) -> tuple[TargetRef | None, bool]:
        """The topmost controller, if there is one, and whether the chain is complete."""
        found = self._chains.get(controller)
        if found is None:
            chain = self._owners.follow(controller)
            found = self._chains[controller] = chain.topmost, not chain.problem
        return found

    def find_governor(self, target: TargetRef, labels: Labels) -> Governor | None:
        if target not in self._selected:
            self._selected.add(target)
            # The workload may have got another selector since.
            self._index.drop_selector(target.kind, target.namespace, target.name)
        governor = self._index.find(target, labels, self._owners)
        return governor if isinstance(governor, Governor) else None
