"""Governing VPAs and Hvpas: the objects as they are kept in the cluster state, compiled to their governors.

An object is compiled once when it changes, and not for each of its pods. New pods get the target whatever they request,
so that components that only size new pods do without the bounds: 2.6 KB a VPA instead of 3.2, and 4.2 as decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import Final, TypeAlias, TypeVar

import msgspec

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.parts import TargetReference
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.meta import ObjectMeta
from trellis.api.registry import HVPA, VPA
from trellis.core.cluster.transforms import select_annotations
from trellis.core.recommend.capping import RecommendedResources
from trellis.core.sizing.governors import Governor, compile_hvpa_governor, compile_vpa_governor

_O = TypeVar("_O", VerticalPodAutoscaler, Hvpa)

# Gets an object that cannot be compiled, and why; it has no governor then.
ReportFailure: TypeAlias = Callable[[VerticalPodAutoscaler | Hvpa, Exception], None]

_NO_KEYS: Final[tuple[str, ...]] = ()


class GoverningVpa(VerticalPodAutoscaler, frozen=True):
    """A VPA of which the name, the governor and some annotations are kept."""

    governor: Governor | None = None


class GoverningHvpa(Hvpa, frozen=True):
    """An Hvpa of which the same is kept."""

    governor: Governor | None = None


def governor_of(found: VerticalPodAutoscaler | Hvpa | None) -> Governor | None:
    """The governor of a VPA or an Hvpa that was transformed, if it sizes pods."""
    return found.governor if isinstance(found, GoverningVpa | GoverningHvpa) else None


class VpaTransform:
    """Compiles a VPA. With `bounds` the bounds of its recommendation are kept, which only running pods need."""

    def __init__(self, report: ReportFailure, *, bounds: bool = False, annotations: tuple[str, ...] = _NO_KEYS) -> None:
        self._report = report
        self._bounds = bounds
        self._annotations = annotations

    def __call__(self, vpa: VerticalPodAutoscaler) -> VerticalPodAutoscaler:
        spec = msgspec.structs.replace(vpa.spec, target_ref=_interned_target(vpa.spec.target_ref))
        whole = msgspec.structs.replace(vpa, kind=VPA.name, spec=spec)
        governor = _compile(compile_vpa_governor, whole, self._report, bounds=self._bounds)
        metadata = _cut_metadata(vpa.metadata, self._annotations)
        return GoverningVpa(metadata=metadata, governor=governor)


class HvpaTransform:
    """Compiles an Hvpa."""

    def __init__(self, report: ReportFailure, *, bounds: bool = False, annotations: tuple[str, ...] = _NO_KEYS) -> None:
        self._report = report
        self._bounds = bounds
        self._annotations = annotations

    def __call__(self, hvpa: Hvpa) -> Hvpa:
        spec = msgspec.structs.replace(hvpa.spec, target_ref=_interned_target(hvpa.spec.target_ref))
        whole = msgspec.structs.replace(hvpa, kind=HVPA.name, spec=spec)
        governor = _compile(compile_hvpa_governor, whole, self._report, bounds=self._bounds)
        metadata = _cut_metadata(hvpa.metadata, self._annotations)
        return GoverningHvpa(metadata=metadata, governor=governor)


def _compile(
    compile_: Callable[[_O], Governor | None], found: _O, report: ReportFailure, *, bounds: bool
) -> Governor | None:
    try:
        governor = compile_(found)
    except Exception as error:  # noqa: BLE001 - one object that cannot be compiled must not hide all others
        report(found, error)
        return None
    if governor is None or bounds:
        return governor
    targets = tuple(RecommendedResources(intern(advice.container), advice.target) for advice in governor.advice)
    return msgspec.structs.replace(governor, advice=targets)


def _interned_target(target: TargetReference) -> TargetReference:
    """The same with text that ten thousand objects share."""
    return TargetReference(intern(target.api_version), intern(target.kind), target.name)


def _cut_metadata(metadata: ObjectMeta, annotations: tuple[str, ...]) -> ObjectMeta:
    return ObjectMeta(
        name=metadata.name,
        namespace=intern(metadata.namespace),
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        annotations=select_annotations(metadata, annotations),
    )
