"""ProvisioningRequests in a cluster whose nodes are planned, with a status that follows the decisions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from support.worlds.nodes import START, Cluster, a_pod, a_spec
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import Pod, PodTemplate
from trellis.api.kube.provisioning.pod_groups import PodGroup
from trellis.api.kube.provisioning.requests import ProvisioningRequest
from trellis.base.times import format_time
from trellis.core.nodes.provisioning.decisions import ProvisioningDecision
from trellis.core.nodes.provisioning.requests import CONSUMED_REQUEST_ANNOTATIONS
from trellis.core.nodes.provisioning.status import build_request_conditions

Document = dict[str, Any]

CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
NAMESPACE = "default"


def a_template(name: str, cpu: str = "1", memory: str = "1Gi", **fields: Any) -> PodTemplate:
    labels = fields.pop("labels", {})
    template = {"metadata": {"labels": labels}, "spec": a_spec(cpu, memory, **fields)}
    return convert_object({"metadata": {"name": name, "namespace": NAMESPACE}, "template": template}, PodTemplate)


def a_request(name: str, *pod_sets: tuple[str, int], kind: str = ATOMIC, **fields: Any) -> ProvisioningRequest:
    """A request for sets of pods, by the name of the template and the number."""
    created = format_time(datetime.fromtimestamp(fields.pop("created", START), UTC))
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "creationTimestamp": created}
    spec = {
        "podSets": [{"podTemplateRef": {"name": template}, "count": count} for template, count in pod_sets],
        "provisioningClassName": kind,
        "parameters": fields.pop("parameters", {}),
    }
    return convert_object({"metadata": metadata, "spec": spec, "status": fields}, ProvisioningRequest)


def a_consumer(name: str, request: str, cpu: str = "1", *, annotation: int = 0, **fields: Any) -> Pod:
    """A pod of a request for which the scheduler has found no node."""
    pod = a_pod(name, cpu, **fields)
    annotations = {CONSUMED_REQUEST_ANNOTATIONS[annotation]: request}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))


def put_request(
    cluster: Cluster, name: str, count: int, cpu: str = "1", *, template: Document | None = None, **fields: Any
) -> None:
    """A request for equal pods, and the template that it names."""
    put_template(cluster, a_template(name, cpu, **(template or {})))
    put(cluster, a_request(name, (name, count), **fields))


def put_template(cluster: Cluster, template: PodTemplate) -> None:
    cluster.snapshot.provisioning.put_template((NAMESPACE, template.metadata.name), template)


def put(cluster: Cluster, request: ProvisioningRequest) -> None:
    cluster.snapshot.provisioning.put_request((NAMESPACE, request.metadata.name), request)


def decision(cluster: Cluster, name: str) -> ProvisioningDecision:
    """The decision of the last plan about a request."""
    assert cluster.last is not None
    return next(decision for decision in cluster.last.requests if decision.key[1] == name)


def code(cluster: Cluster, name: str) -> str:
    """The code of the reason in the last plan."""
    return decision(cluster, name).reason.reason.code


def write_status(cluster: Cluster, request: ProvisioningRequest) -> ProvisioningRequest:
    """Write the conditions of the last plan into the status, where they are to be written."""
    conditions = build_request_conditions(decision(cluster, request.metadata.name), request.status.conditions, 1)
    if conditions is None:
        return request
    status = convert_object({"status": {"conditions": conditions}}, ProvisioningRequest).status
    request = msgspec.structs.replace(request, status=status)
    put(cluster, request)
    return request


def conditions(request: ProvisioningRequest) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    return {condition.type: (condition.status, condition.reason) for condition in request.status.conditions}


def a_pod_group(name: str, minimum: int) -> PodGroup:
    metadata = {"name": name, "namespace": NAMESPACE}
    return convert_object({"metadata": metadata, "spec": {"minMember": minimum}}, PodGroup)
