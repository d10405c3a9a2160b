"""ProvisioningRequests as plans read them, with the pods that consume them.

A request is read together with the PodTemplates that it names. One that cannot be read has a problem, and affects no
other request. Requests of other provisioning classes are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from trellis.api.kube.meta import Condition, ObjectMeta
from trellis.api.kube.pods import Pod, PodTemplate
from trellis.api.kube.provisioning.requests import ProvisioningRequest
from trellis.base.errors import InvalidInput
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.fit import Demand
from trellis.core.nodes.state.pods import BufferChunks, is_finished


class ProvisioningClass(StrEnum):
    """How the capacity of a request is provided: what is there is booked, or nodes are ordered for all pods or none."""

    CHECK_CAPACITY = "check-capacity.autoscaling.x-k8s.io"
    BEST_EFFORT_ATOMIC_SCALE_UP = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


# The annotation of a pod with the name of the request that provides its capacity, now and formerly.
CONSUMED_REQUEST_ANNOTATIONS: Final = (
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
)
# Parameters of a request.
_NO_RETRY: Final = "noRetry"
_VALID_UNTIL: Final = "ValidUntilSeconds"
_USUAL_VALIDITY_SECONDS: Final = 7 * 86_400.0
_MAX_PODS: Final = 100_000

# Condition types.
ACCEPTED: Final = "Accepted"
PROVISIONED: Final = "Provisioned"
FAILED: Final = "Failed"
BOOKING_EXPIRED: Final = "BookingExpired"
CAPACITY_REVOKED: Final = "CapacityRevoked"

POD_TEMPLATE_MISSING = Reason(
    "PodTemplateMissing", "A PodTemplate that the ProvisioningRequest names does not exist.", Severity.WARNING
)
FAILED_TO_CREATE_PODS = Reason(
    "FailedToCreatePods", "The pods of the ProvisioningRequest cannot be read from its spec.", Severity.WARNING
)


class BookedPods(BufferChunks, frozen=True):
    """The pods of one set of a ProvisioningRequest, which are placed like the chunks of a Buffer."""

    @property
    def origin(self) -> str:
        return f"ProvisioningRequest {self.key[0]}/{self.key[1]}"


class CapacityRequest(msgspec.Struct, frozen=True):
    """A ProvisioningRequest as plans read it.

    `provisioned_at` is when its status became provisioned, `has_ended` whether its status says that it failed, or that
    its capacity is not booked any more. Without a `problem` it has its pods.
    """

    key: ObjectKey
    uid: str
    provisioning_class: ProvisioningClass
    created_at: float
    valid_until: float
    is_retried: bool = True
    pod_sets: tuple[BookedPods, ...] = ()
    problem: DetailedReason | None = None
    provisioned_at: float | None = None
    has_ended: bool = False

    @property
    def pod_count(self) -> int:
        """The number of its pods."""
        return sum(pods.count for pods in self.pod_sets)


def find_consumed_request(pod: Pod) -> ObjectKey | None:
    """The request that a pod names as the source of its capacity."""
    annotations = pod.metadata.annotations
    for annotation in CONSUMED_REQUEST_ANNOTATIONS if annotations else ():
        if annotation in annotations:
            return pod.metadata.namespace, annotations[annotation]
    return None


class ProvisioningRequests:
    """All requests, their PodTemplates, and the pods that consume requests. None says that an object was deleted."""

    def __init__(self) -> None:
        self.requests: dict[ObjectKey, CapacityRequest] = {}
        self._objects: dict[ObjectKey, ProvisioningRequest] = {}
        self._templates: dict[ObjectKey, PodTemplate] = {}
        self._requests_by_template: dict[ObjectKey, set[ObjectKey]] = {}
        self._consumers: dict[ObjectKey, dict[ObjectKey, None]] = {}
        self._consumed: dict[ObjectKey, ObjectKey] = {}

    def put_request(self, key: ObjectKey, request: ProvisioningRequest | None) -> None:
        before = self._objects.pop(key, None)
        for template in _list_template_keys(before):
            self._requests_by_template.get(template, set()).discard(key)
        self.requests.pop(key, None)
        if request is None or request.metadata.deletion_timestamp is not None:
            return
        self._objects[key] = request
        for template in _list_template_keys(request):
            self._requests_by_template.setdefault(template, set()).add(key)
        self._read(key)

    def put_template(self, key: ObjectKey, template: PodTemplate | None) -> None:
        if template is not None:
            self._templates[key] = template
        else:
            self._templates.pop(key, None)
        for request in sorted(self._requests_by_template.get(key, ())):
            self._read(request)

    def put_pod(self, key: ObjectKey, pod: Pod | None) -> None:
        """Record whether a pod consumes a request. A pod that has ended consumes none."""
        previous = self._consumed.pop(key, None)
        if previous is not None:
            self._consumers[previous].pop(key)
            if not self._consumers[previous]:
                del self._consumers[previous]
        request = find_consumed_request(pod) if pod is not None and not is_finished(pod) else None
        if request is not None:
            self._consumed[key] = request
            self._consumers.setdefault(request, {})[key] = None

    def list_consumers(self, key: ObjectKey) -> list[ObjectKey]:
        """The pods that consume a request, in the order of their names."""
        return sorted(self._consumers.get(key, ()))

    def _read(self, key: ObjectKey) -> None:
        request = read_request(self._objects[key], self._templates)
        if request is not None:
            self.requests[key] = request


def _list_template_keys(request: ProvisioningRequest | None) -> Iterator[ObjectKey]:
    for pods in request.spec.pod_sets if request is not None else ():
        yield request.metadata.namespace if request is not None else "", pods.pod_template_ref.name


def read_request(request: ProvisioningRequest, templates: Mapping[ObjectKey, PodTemplate]) -> CapacityRequest | None:
    """The request; None if its provisioning class is unknown."""
    spec, metadata = request.spec, request.metadata
    if spec.provisioning_class_name not in frozenset(ProvisioningClass):
        return None
    conditions = {condition.type: condition for condition in request.status.conditions}
    created_at = _to_seconds(metadata.creation_timestamp)
    pods = _read_pod_sets(request, templates)
    return CapacityRequest(
        key=key_of(request),
        uid=metadata.uid,
        provisioning_class=ProvisioningClass(spec.provisioning_class_name),
        created_at=created_at,
        valid_until=created_at + _read_validity(spec.parameters),
        is_retried=spec.parameters.get(_NO_RETRY) != "true",
        pod_sets=() if isinstance(pods, DetailedReason) else pods,
        problem=pods if isinstance(pods, DetailedReason) else None,
        provisioned_at=_find_provisioned_time(conditions.get(PROVISIONED), created_at),
        has_ended=any(_is_true(conditions.get(name)) for name in (FAILED, BOOKING_EXPIRED, CAPACITY_REVOKED)),
    )


def _read_pod_sets(
    request: ProvisioningRequest, templates: Mapping[ObjectKey, PodTemplate]
) -> tuple[BookedPods, ...] | DetailedReason:
    """The pods of a request, or why they cannot be read."""
    pod_sets: list[BookedPods] = []
    for number, written in enumerate(request.spec.pod_sets):
        path = f"spec.podSets[{number}]"
        if written.count < 1:
            return DetailedReason(FAILED_TO_CREATE_PODS, f"{path}.count: {written.count} is less than 1")
        namespace, name = request.metadata.namespace, written.pod_template_ref.name
        template = templates.get((namespace, name))
        if template is None:
            return DetailedReason(POD_TEMPLATE_MISSING, f"{path}.podTemplateRef: {namespace} has no PodTemplate {name}")
        try:
            demand = _read_demand(template, namespace)
        except InvalidInput as error:
            return DetailedReason(FAILED_TO_CREATE_PODS, f"{path}: PodTemplate {name}: {error}")
        priority = template.template.spec.priority or 0
        uid = f"{request.metadata.uid}/{number}"
        pod_sets.append(BookedPods(key_of(request), uid, written.count, demand, priority=priority))
    count = sum(pods.count for pods in pod_sets)
    if not 1 <= count <= _MAX_PODS:
        return DetailedReason(FAILED_TO_CREATE_PODS, f"spec.podSets: {count} pods are not 1 to {_MAX_PODS}")
    return tuple(pod_sets)


def _read_demand(template: PodTemplate, namespace: str) -> Demand:
    spec = msgspec.structs.replace(template.template.spec, node_name="", volumes=())
    return Demand.of(spec, metadata=ObjectMeta(namespace=namespace, labels=template.template.metadata.labels))


def _read_validity(parameters: Mapping[str, str]) -> float:
    """How long a request is tried. Queues write 0 for no limit of their own."""
    text = parameters.get(_VALID_UNTIL, "")
    seconds = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0
    return float(seconds) or _USUAL_VALIDITY_SECONDS


def _find_provisioned_time(condition: Condition | None, created_at: float) -> float | None:
    if condition is None or not _is_true(condition):
        return None
    return _to_seconds(condition.last_transition_time) if condition.last_transition_time is not None else created_at


def _is_true(condition: Condition | None) -> bool:
    return condition is not None and condition.status == "True"


def _to_seconds(time: datetime | None) -> float:
    return time.timestamp() if time is not None else 0.0
