"""The API server of the model cluster: evictions, resizes, annotations, scale subresources, and workloads by name.

JSON patches follow RFC 6902 as far as patches of pods use it: test, add, replace, remove. A test that fails, or a path
that does not exist, refuses the patch as a whole, as the API server does.

Workloads have scales of their own, and any other kind can be registered with its own:

    scales = ScaleRegistry(cluster)
    scales.register("Hvpa", hvpas)
    scale = scales.get("shop", "Hvpa", "web")
    scales.put("shop", "Hvpa", "web", 3, version=scale.metadata.resource_version)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from trellis.api.kube.meta import RESIZE, KubeObject, ObjectMeta, PodMeta, SubresourceWrite
from trellis.api.kube.pods import Container, Pod, PodSpec
from trellis.api.kube.policies import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from trellis.api.kube.scaling import Scale, ScaleSpec, ScaleStatus
from trellis.base.errors import InvalidInput
from trellis.base.selectors import parse_selector, selector_from_object
from trellis.core.cluster.json_patches import PatchOp
from trellis.core.cluster.write_results import WriteResult
from trellis.core.nodes.state.pods import is_daemon_or_mirror_pod
from trellis.core.recommend.amounts import RESOURCES, parse_amounts
from trellis.core.resize.actions import PodRef
from trellis.core.sizing.shapes import PodShape
from trellis.sim.cluster.kubelet.resizes import PodResizes, compute_allocation
from trellis.sim.cluster.pod_lifecycle import PodLifecycle
from trellis.sim.cluster.pod_state import ModelPod
from trellis.sim.cluster.pods import FAILED, PENDING, SUCCEEDED, api_time
from trellis.sim.cluster.state import ModelState
from trellis.sim.cluster.telemetry import PodEvent


def apply_patch(pod: Pod, patch: Iterable[PatchOp]) -> Pod:
    """Apply all operations to a pod's metadata and spec; raises `InvalidInput` if one of them is refused."""
    document = msgspec.to_builtins({"metadata": pod.metadata, "spec": pod.spec}, builtin_types=(datetime,))
    for operation in patch:
        _apply_operation(document, operation)
    try:
        metadata = msgspec.convert(document["metadata"], PodMeta)
        spec = msgspec.convert(document["spec"], PodSpec)
    except msgspec.ValidationError as error:
        raise InvalidInput(pod.metadata.name, f"the patched object is not a valid pod: {error}") from error
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec)


def _apply_operation(document: dict[str, Any], operation: PatchOp) -> None:
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation.path.split("/")[1:]]
    parent: Any = document
    for part in parents:
        parent = _child(parent, part, operation)
    match operation.op:
        case "test":
            if _child(parent, last, operation) != operation.value:
                raise InvalidInput(operation.path, f"the value is not {operation.value!r}")
        case "add" if isinstance(parent, dict):
            # A patch may be applied to many pods, and later operations change what it adds.
            parent[last] = dict(operation.value) if isinstance(operation.value, dict) else operation.value
        case "replace" if isinstance(parent, dict):
            _child(parent, last, operation)
            parent[last] = operation.value
        case "remove" if isinstance(parent, dict):
            _child(parent, last, operation)
            del parent[last]
        case _:
            raise InvalidInput(operation.path, f'operation "{operation.op}" is not possible at this path')


def _child(parent: Any, part: str, operation: PatchOp) -> Any:
    try:
        return parent[int(part)] if isinstance(parent, list | tuple) else parent[part]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidInput(operation.path, f'the path has no "{part}"') from error


class WorkloadLookup:
    """Workloads by namespace, kind and name."""

    def __init__(self, state: ModelState) -> None:
        self._state = state
        self._numbers = {
            (workload.namespace, workload.kind, workload.name): number
            for number, workload in enumerate(state.fleet.workloads)
        }

    def find(self, namespace: str, kind: str, name: str) -> KubeObject | None:
        """The object; None if there is none."""
        number = self._numbers.get((namespace, kind, name))
        return self._state.objects[number] if number is not None else None

    def list_pods(self, namespace: str, kind: str, name: str) -> Iterator[Pod]:
        """The pods of a workload."""
        number = self._numbers.get((namespace, kind, name))
        return (pod.pod for pod in self._state.pods_by_workload[number].values()) if number is not None else iter(())

    def budgets(self) -> Iterator[PodDisruptionBudget]:
        """The disruption budgets of all workloads, with what they allow now."""
        state = self._state
        for number, workload in enumerate(state.fleet.workloads):
            if workload.max_unavailable is None:
                continue
            healthy = sum(pod.ready for pod in state.pods_by_workload[number].values())
            needed = max(state.replicas[number] - workload.max_unavailable, 0)
            yield PodDisruptionBudget(
                ObjectMeta(name=workload.name, namespace=workload.namespace),
                PodDisruptionBudgetSpec(
                    selector=state.templates[number].selector, max_unavailable=workload.max_unavailable
                ),
                PodDisruptionBudgetStatus(
                    disruptions_allowed=max(healthy - needed, 0),
                    current_healthy=healthy,
                    desired_healthy=needed,
                    expected_pods=state.replicas[number],
                ),
            )


_SCALED: Final = ("Deployment", "StatefulSet")


class WorkloadScales:
    """The `/scale` subresource of workloads. Their controllers reconcile what is written."""

    def __init__(self, state: ModelState) -> None:
        self._state = state
        self._numbers = {
            (workload.namespace, workload.kind, workload.name): number
            for number, workload in enumerate(state.fleet.workloads)
            if workload.kind in _SCALED
        }
        self._by_namespace: dict[str, list[int]] = {}
        self._by_label: dict[tuple[str, str, str], list[int]] = {}
        for number, (workload, template) in enumerate(zip(state.fleet.workloads, state.templates, strict=True)):
            self._by_namespace.setdefault(workload.namespace, []).append(number)
            for label, value in template.metadata.labels.items():
                self._by_label.setdefault((workload.namespace, label, value), []).append(number)
        self._selectors = [str(selector_from_object(template.selector.match_labels)) for template in state.templates]

    def scale(self, namespace: str, kind: str, name: str) -> Scale | None:
        """The requested and the existing replicas; None if there is no such workload."""
        state, number = self._state, self._numbers.get((namespace, kind, name))
        result = state.objects[number] if number is not None else None
        if number is None or result is None:
            return None
        status = ScaleStatus(int(state.active_pods[number]), self._selectors[number])
        return Scale(result.metadata, ScaleSpec(state.replicas[number]), status)

    def select_workloads(self, namespace: str, selector: str) -> tuple[int, ...]:
        """The numbers of the workloads whose pods a selector matches."""
        read = parse_selector(selector)
        first = next(iter(read.value_requirements), None)
        if first is None:
            result: Iterable[int] = self._by_namespace.get(namespace, ())
        else:
            result = (
                number for value in first.values for number in self._by_label.get((namespace, first.key, value), ())
            )
        return tuple(number for number in result if read.matches(self._state.templates[number].metadata.labels))

    def set_scale(self, namespace: str, kind: str, name: str, replicas: int, version: str) -> WriteResult:
        """Set the replicas; with a `version`, only if the workload is still of that version."""
        state, number = self._state, self._numbers.get((namespace, kind, name))
        result: Any = state.objects[number] if number is not None else None
        if number is None or result is None:
            return WriteResult.GONE
        if replicas < 0:
            return WriteResult.INVALID
        metadata = result.metadata
        if version and version != metadata.resource_version:
            return WriteResult.CONFLICT
        if replicas == state.replicas[number]:
            return WriteResult.APPLIED
        state.replicas[number] = replicas
        state.counters.scalings[number] += 1
        newer = msgspec.structs.replace(metadata, resource_version=state.version(), generation=metadata.generation + 1)
        spec = msgspec.structs.replace(result.spec, replicas=replicas)
        state.publish(number, msgspec.structs.replace(result, metadata=newer, spec=spec))
        state.wake_controller(number)
        return WriteResult.APPLIED


class PodWriteApi:
    """Takes writes to pods, and returns their results."""

    def __init__(self, state: ModelState, lifecycle: PodLifecycle, resizes: PodResizes) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._resizes = resizes

    def evict(self, ref: PodRef) -> WriteResult:
        """Evict a pod, if its disruption budget permits."""
        model_pod = self._find(ref)
        if model_pod is None:
            return WriteResult.GONE
        if model_pod.terminating:
            return WriteResult.APPLIED
        if model_pod.pod.status.phase != PENDING and not self._budget_allows(model_pod):
            return WriteResult.REFUSED
        self._state.counters.evictions[model_pod.workload] += 1
        self._state.report(model_pod, PodEvent.EVICTED)
        self._lifecycle.delete(model_pod)
        return WriteResult.APPLIED

    def move(self, ref: PodRef) -> WriteResult:
        """Evict a pod because its node is drained, if its disruption budget permits."""
        model_pod = self._find(ref)
        if model_pod is None:
            return WriteResult.GONE
        if model_pod.pod.status.phase != PENDING and not model_pod.terminating and not self._budget_allows(model_pod):
            return WriteResult.REFUSED
        if not model_pod.terminating:
            # A pod of a DaemonSet ends with its node, and is not created elsewhere.
            if not is_daemon_or_mirror_pod(model_pod.pod):
                self._state.report(model_pod, PodEvent.MOVED)
            self._lifecycle.delete(model_pod)
        return WriteResult.APPLIED

    def resize(self, ref: PodRef, patch: tuple[PatchOp, ...]) -> tuple[WriteResult, str]:
        """Patch the resources of a pod's containers; a refusal comes with its reason.

        Kubernetes 1.36 answers 403 to a size beyond what the pod's node offers: the kubelet never sees it.
        """
        model_pod = self._find(ref)
        if model_pod is None:
            return WriteResult.GONE, ""
        try:
            new = apply_patch(model_pod.pod, patch)
        except InvalidInput as error:
            return WriteResult.INVALID, str(error)
        problem = next(_problems(model_pod.pod, new), "")
        if problem:
            return WriteResult.INVALID, problem
        if model_pod.node >= 0 and not self._state.nodes.has_capacity(model_pod.node, compute_allocation(new)):
            self._state.report(model_pod, PodEvent.RESIZE_INFEASIBLE)
            return WriteResult.INFEASIBLE, (
                "the pod would request more than its node's allocatable resources (NodeCapacity)"
            )
        if new.spec != model_pod.pod.spec:
            metadata = msgspec.structs.replace(
                new.metadata,
                generation=new.metadata.generation + 1,
                managed_fields=(SubresourceWrite(api_time(self._state.now), RESIZE),),
            )
            self._state.put(model_pod, msgspec.structs.replace(new, metadata=metadata), resized=True)
            if model_pod.containers:
                self._resizes.resize(model_pod)
            else:
                self._state.kick_scheduler()
        return WriteResult.APPLIED, ""

    def annotate(self, ref: PodRef, patch: tuple[PatchOp, ...]) -> WriteResult:
        """Patch the annotations of a pod."""
        model_pod = self._find(ref)
        if model_pod is None:
            return WriteResult.GONE
        try:
            new = apply_patch(model_pod.pod, patch)
        except InvalidInput:
            return WriteResult.INVALID
        if new.spec != model_pod.pod.spec:
            return WriteResult.INVALID
        if new.metadata != model_pod.pod.metadata:
            self._state.put(model_pod, msgspec.structs.replace(model_pod.pod, metadata=new.metadata))
        return WriteResult.APPLIED

    def _find(self, ref: PodRef) -> ModelPod | None:
        model_pod = self._state.pods.get((ref.namespace, ref.name))
        return model_pod if model_pod is not None and model_pod.pod.metadata.uid == ref.uid else None

    def _budget_allows(self, model_pod: ModelPod) -> bool:
        """Whether the workload's PodDisruptionBudget permits it; a pod that is not Ready goes if the others suffice."""
        workload = self._state.fleet.workloads[model_pod.workload]
        if workload.max_unavailable is None:
            return True
        healthy = sum(pod.ready for pod in self._state.pods_by_workload[model_pod.workload].values())
        needed = self._state.replicas[model_pod.workload] - workload.max_unavailable
        return healthy - model_pod.ready >= needed


def _problems(old: Pod, new: Pod) -> Iterator[str]:
    """The reasons for which the API server refuses a resize."""
    if old.status.phase in (SUCCEEDED, FAILED):
        yield "a pod that has ended cannot be resized"
    if new.metadata != old.metadata or _without_resizable(new) != _without_resizable(old):
        yield "only container resources may be changed"
    for container in (*new.spec.containers, *new.spec.init_containers):
        yield from _container_problems(container)
    if PodShape.from_spec(new.spec).qos is not PodShape.from_spec(old.spec).qos:
        yield "the QoS class of the pod must not change"


def _without_resizable(pod: Pod) -> object:
    """A spec without what a resize may change."""
    spec = pod.spec
    return msgspec.structs.replace(
        spec,
        containers=tuple(map(_without_resources, spec.containers)),
        init_containers=tuple(
            _without_resources(container) if container.is_sidecar else container for container in spec.init_containers
        ),
    )


def _without_resources(container: Container) -> tuple[object, ...]:
    resources = container.resources
    remaining = [
        {name: text for name, text in written.items() if name not in RESOURCES}
        for written in (resources.requests, resources.limits)
    ]
    named = [sorted(set(written) & set(RESOURCES)) for written in (resources.requests, resources.limits)]
    return remaining, named, msgspec.structs.replace(container, resources=type(resources)(claims=resources.claims))


def _container_problems(container: Container) -> Iterator[str]:
    requests, limits = parse_amounts(container.resources.requests), parse_amounts(container.resources.limits)
    for resource, limit in limits.items():
        if requests.get(resource, 0) > limit:
            yield f"container {container.name}: the request of {resource} is above its limit"


class ScaleServer(Protocol):
    """Serves the scales of a kind of objects; the model cluster does for workloads."""

    def scale(self, namespace: str, kind: str, name: str, /) -> Scale | None:
        """The scale; None if there is no such object, or its replicas were never set."""

    def set_scale(self, namespace: str, kind: str, name: str, replicas: int, /, *, version: str = "") -> WriteResult:
        """Set the replicas; with a `version`, only if the object is still of that version."""


class ScaleRegistry:
    """All scales: each registered kind has its server, and all other kinds are workloads."""

    def __init__(self, workloads: ScaleServer) -> None:
        self._workloads = workloads
        self._kinds: dict[str, ScaleServer] = {}

    def register(self, kind: str, serves: ScaleServer) -> None:
        """Register the server of a kind."""
        self._kinds[kind] = serves

    def get(self, namespace: str, kind: str, name: str) -> Scale | None:
        """The scale of an object; None if there is none."""
        return self._kinds.get(kind, self._workloads).scale(namespace, kind, name)

    def put(self, namespace: str, kind: str, name: str, replicas: int, *, version: str = "") -> WriteResult:
        """Set the replicas; with a `version`, only if the object is still of that version."""
        return self._kinds.get(kind, self._workloads).set_scale(namespace, kind, name, replicas, version=version)
