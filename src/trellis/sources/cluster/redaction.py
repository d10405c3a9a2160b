"""Removes sensitive data from an object before it leaves the cluster.

Slices have no environments, commands, images and mounts. What they still have of free text are annotations, in which
anything may be stored (the last applied manifest for one, with all its environment), and messages, in which a kubelet
quotes what a probe or a registry said. Of both only known ones stay. A Buffer may have a pod written
into it, which is treated like the pods that run.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from trellis.api.kube.coordination import Event
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import POD_SCHEDULED, RESIZE_IN_PROGRESS, RESIZE_PENDING, PodSpec
from trellis.api.kube.storage import BIND_COMPLETED, SELECTED_NODE
from trellis.api.registry import BUFFER, HVPA, VPA
from trellis.base.errors import UnreadableObject
from trellis.core.boost import annotation
from trellis.core.cluster.pod_annotations import (
    IN_PLACE_UPDATED_ANNOTATION,
    OBSERVED_CONTAINERS_ANNOTATION,
    UPDATES_ANNOTATION,
)
from trellis.core.nodes.scale_down.drainability import DO_NOT_DISRUPT, SAFE_LOCAL_VOLUMES, SAFE_TO_EVICT
from trellis.core.nodes.scale_down.removable_nodes import SCALE_DOWN_DISABLED_ANNOTATION
from trellis.core.nodes.state.pods import MIRROR_POD_ANNOTATION
from trellis.core.recommend.state.tables import INTEGER_CPU_PREFIX

Document = dict[str, Any]

# What the kubelet notes on an Event about a pod that it evicts.
OFFENDING_CONTAINERS: Final = "offending_containers"
EVICTION_DETAILS: Final = ("offending_containers_usage", "starved_resource")

# What is said on pods, nodes and claims about whether they may go, in a yes or no.
DISRUPTION_ANNOTATIONS: Final = frozenset(
    {SAFE_TO_EVICT, DO_NOT_DISRUPT, SCALE_DOWN_DISABLED_ANNOTATION, BIND_COMPLETED}
)

# Annotations that are lists of names.
NAME_LISTS: Final = frozenset({OBSERVED_CONTAINERS_ANNOTATION, OFFENDING_CONTAINERS, SAFE_LOCAL_VOLUMES})

_KNOWN_ANNOTATIONS: Final = (
    DISRUPTION_ANNOTATIONS
    | NAME_LISTS
    | {UPDATES_ANNOTATION, IN_PLACE_UPDATED_ANNOTATION, MIRROR_POD_ANNOTATION, SELECTED_NODE, *EVICTION_DETAILS}
)
_KNOWN_PREFIXES: Final = ("trellis.x-k8s.io/", annotation.ANNOTATION_PREFIX, INTEGER_CPU_PREFIX)
_KNOWN_CONDITIONS: Final = frozenset({POD_SCHEDULED, RESIZE_PENDING, RESIZE_IN_PROGRESS})

# Components of autoscalers, upstream's among them, by how their names begin.
_AUTOSCALERS: Final = ("vpa-", "trellis")
_RELEVANT_REASONS: Final = frozenset(
    {
        "Evicted",
        "FailedScheduling",
        "OOMKilling",
        "Preempted",
        "ResizeCompleted",
        "ResizeDeferred",
        "ResizeError",
        "ResizeInfeasible",
        "ResizeStarted",
        "SuccessfulRescale",
    }
)


def redact(document: Document, kind: str) -> Document:
    """The document of a slice, cleaned in place."""
    _keep_known_annotations(document)
    if kind == "Pod":
        _keep_known_messages(document.get("status", {}))
    if kind == BUFFER.name:
        _keep_known_pod((document.get("spec", {}).get("capacity") or {}).get("pods"))
        _keep_known_pod((document.get("status") or {}).get("podBasedBufferSpec"))
    return document


def is_relevant_event(event: Event) -> bool:
    """Whether an Event is about what autoscalers did or had to reckon with; probes and pulls are not."""
    if event.involved_object.kind in (VPA.name, HVPA.name, BUFFER.name):
        return True
    component = event.reporting_component or event.source.component
    return component.startswith(_AUTOSCALERS) or event.reason in _RELEVANT_REASONS


def _keep_known_annotations(value: object) -> None:
    """Drop unknown annotations, and finalizers, from the object and from templates within it."""
    if isinstance(value, list):
        for item in value:
            _keep_known_annotations(item)
    elif isinstance(value, dict):
        for key, nested in list(value.items()):
            if key == "annotations" and isinstance(nested, dict):
                value[key] = {name: text for name, text in nested.items() if _is_known_annotation(name)}
            elif key == "finalizers":
                del value[key]
            else:
                _keep_known_annotations(nested)


def _keep_known_pod(pods: Document | None) -> None:
    """Reduce the pod spec of a Buffer to the fields read of running pods; an unreadable one becomes empty."""
    if pods is None or "podSpec" not in pods:
        return
    try:
        spec = convert_object(pods["podSpec"], PodSpec)
    except UnreadableObject:
        spec = PodSpec()
    pods["podSpec"] = msgspec.json.decode(msgspec.json.encode(spec))


def _is_known_annotation(annotation: str) -> bool:
    return annotation in _KNOWN_ANNOTATIONS or annotation.startswith(_KNOWN_PREFIXES)


def _keep_known_messages(status: Document) -> None:
    for condition in status.get("conditions", ()):
        if condition.get("type") not in _KNOWN_CONDITIONS:
            condition.pop("message", None)
    for part in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(part, ()):
            for state in ("state", "lastState"):
                container.get(state, {}).get("waiting", {}).pop("message", None)
