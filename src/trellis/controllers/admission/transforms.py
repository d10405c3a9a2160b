"""Transforms of VPAs, Hvpas and workloads to what matters for new pods.

The Buffer controller and the node autoscaler use them too. The webhook caches all workloads of a cluster, and reads of
most of them one thing: their controller. A ReplicaSet takes 900 bytes as it is read, most of them text that others have
as well, and 300 after the transform. Of a VPA only its compiled governor is kept: three kilobytes instead of six.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Final, TypeVar

import msgspec

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.parts import TargetReference
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.meta import LabelSelector, ObjectMeta, OwnerReference
from trellis.api.kube.observed_workloads import ObservedObject, ObservedWorkload, OwnedMeta, SelectingSpec
from trellis.api.registry import HVPA, VPA
from trellis.core.recommend.capping import RecommendedResources
from trellis.core.sizing.governors import Governor, compile_hvpa_governor, compile_vpa_governor
from trellis.runtime.telemetry.logs import Logger

W = TypeVar("W", bound=ObservedObject)
T = TypeVar("T")

_NO_SPEC: Final = SelectingSpec()

_log: Final = Logger("trellis.admission")


class WorkloadTransform:
    """Keeps the controller of a workload, and its selector only if it has no controller: then it may be a target.

    Lists come in the order of names, so that the ReplicaSets of a Deployment follow each other: what they have in
    common with the one before is held once.
    """

    def __init__(self) -> None:
        self._owners: tuple[OwnerReference, ...] = ()

    def slim(self, found: W) -> W:
        """The same workload, smaller."""
        metadata = found.metadata
        controller = metadata.controller
        kept = OwnedMeta(
            name=metadata.name,
            namespace=intern(metadata.namespace),
            owner_references=self._shared(controller) if controller is not None else (),
        )
        if isinstance(found, ObservedWorkload):
            spec = _NO_SPEC if controller is not None else SelectingSpec(_transform_selector(found.spec.selector))
            return msgspec.structs.replace(found, metadata=kept, spec=spec)
        return msgspec.structs.replace(found, metadata=kept)

    def _shared(self, controller: OwnerReference) -> tuple[OwnerReference, ...]:
        last = self._owners[0] if self._owners else None
        if last is None or (last.name, last.kind, last.api_version) != (
            controller.name,
            controller.kind,
            controller.api_version,
        ):
            self._owners = (
                OwnerReference(
                    intern(controller.api_version), intern(controller.kind), controller.name, controller=True
                ),
            )
        return self._owners


class GoverningVpa(VerticalPodAutoscaler, frozen=True):
    """A VPA of which nothing is kept but its name and what it means for pods."""

    governor: Governor | None = None


class GoverningHvpa(Hvpa, frozen=True):
    """An Hvpa of which nothing is kept but its name and what it means for pods."""

    governor: Governor | None = None


def transform_vpa(found: VerticalPodAutoscaler) -> VerticalPodAutoscaler:
    """The same VPA, compiled."""
    spec = msgspec.structs.replace(found.spec, target_ref=_shared_target(found.spec.target_ref))
    governor = _compile(compile_vpa_governor, msgspec.structs.replace(found, kind=VPA.name, spec=spec))
    return GoverningVpa(metadata=_transform_metadata(found.metadata), governor=governor)


def transform_hvpa(found: Hvpa) -> Hvpa:
    """The same Hvpa, compiled."""
    spec = msgspec.structs.replace(found.spec, target_ref=_shared_target(found.spec.target_ref))
    governor = _compile(compile_hvpa_governor, msgspec.structs.replace(found, kind=HVPA.name, spec=spec))
    return GoverningHvpa(metadata=_transform_metadata(found.metadata), governor=governor)


def _compile(compile_: Callable[[T], Governor | None], found: T) -> Governor | None:
    try:
        governor = compile_(found)
    except Exception as error:  # noqa: BLE001 - one object that nobody can make sense of must not hide all others
        _log.error("an object cannot be compiled, and sizes nothing", error=error, object=found)
        return None
    if governor is None:
        return None
    # The bounds are for pods that run: a new one gets the target, whatever it asks for.
    targets = tuple(RecommendedResources(intern(each.container), each.target) for each in governor.advice)
    return msgspec.structs.replace(governor, advice=targets)


def _shared_target(target: TargetReference) -> TargetReference:
    """The same with text that ten thousand objects share."""
    return TargetReference(intern(target.api_version), intern(target.kind), target.name)


def _transform_metadata(metadata: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(name=metadata.name, namespace=intern(metadata.namespace))


def _transform_selector(selector: LabelSelector | None) -> LabelSelector | None:
    """The same with keys that all selectors share: `app` is text of its own in each of ten thousand otherwise."""
    if selector is None or not selector.match_labels:
        return selector
    labels = {intern(key): value for key, value in selector.match_labels.items()}
    return msgspec.structs.replace(selector, match_labels=labels)
