"""Governors: the VerticalPodAutoscaler or Hvpa by which a pod is sized, compiled once and used many times.

Of several objects that claim a pod, a VPA that acts comes first: an Hvpa yields to it. Hvpas come next, and last VPAs
in mode `Off` that only boost. An object that neither acts nor boosts is no governor, so that a second VPA created for
its recommendation alone, however old, keeps no other from acting.

The cluster state keeps `GoverningVpa` and `GoverningHvpa`: objects with a governor in place of spec and status. New
pods get the target whatever they request, so that components that only size new pods do without the bounds: 2.6 KB a
VPA instead of 3.2, and 4.2 as decoded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from sys import intern
from typing import Final, TypeAlias, TypeVar

import msgspec

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.parts import TargetReference
from trellis.api.kinds.vpa import (
    PodUpdatePolicy,
    VerticalPodAutoscaler,
    VerticalPodAutoscalerSpec,
    VerticalPodAutoscalerStatus,
)
from trellis.api.kube.meta import ObjectMeta
from trellis.api.registry import HVPA, VPA
from trellis.api.resolve import EffectiveVpa, UpdateMode, resolve_hvpa_pods, resolve_vpa
from trellis.core.cluster.governance import TargetClaim
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.transforms import select_annotations
from trellis.core.recommend.capping import RecommendedResources, read_recommended_resources


class GovernorRank(IntEnum):
    """Who goes first; `Claim.rank`."""

    ACTS = 0
    HVPA = 1
    BOOSTS_ONLY = 2


class Governor(msgspec.Struct, frozen=True, gc=False):
    """One object that sizes pods: what it claims, what it means and what is recommended.

    The selector of its claim stays open: it is the target's, and changes with the target.
    """

    kind: str
    claim: TargetClaim
    vpa: EffectiveVpa
    advice: tuple[RecommendedResources, ...]

    @property
    def name(self) -> str:
        """Its name; its namespace is that of the pod."""
        return self.claim.name

    @property
    def is_object(self) -> bool:
        """Whether it stands for an object; `NO_GOVERNOR` does not."""
        return bool(self.kind)

    @property
    def applies(self) -> bool:
        """Whether the recommendation reaches pods; a boost does so in any case."""
        return self.vpa.mode is not UpdateMode.OFF


# For pods that no object governs: nothing is recommended, and nothing is boosted.
NO_GOVERNOR: Final = Governor(
    kind="",
    claim=TargetClaim("", "", "", math.nan, TargetRef("", "", "", ""), selector=None),
    vpa=resolve_vpa(
        VerticalPodAutoscaler(
            spec=VerticalPodAutoscalerSpec(update_policy=PodUpdatePolicy(update_mode=UpdateMode.OFF.value))
        )
    ),
    advice=(),
)


def compile_vpa_governor(vpa: VerticalPodAutoscaler) -> Governor | None:
    """A VPA that sizes pods; None for one that only recommends."""
    effective = resolve_vpa(vpa)
    acts = effective.mode is not UpdateMode.OFF
    if not acts and not effective.can_boost:
        return None
    claim = _claim(vpa.metadata, vpa.spec.target_ref, GovernorRank.ACTS if acts else GovernorRank.BOOSTS_ONLY)
    return Governor(vpa.kind, claim, effective, read_recommended_resources(vpa.status) if acts else ())


def update_advice(governor: Governor, status: VerticalPodAutoscalerStatus | None) -> Governor:
    """The governor of a VPA of which only the status has changed: what it means is costly to find, and stays."""
    return msgspec.structs.replace(governor, advice=read_recommended_resources(status) if governor.applies else ())


def compile_hvpa_governor(hvpa: Hvpa) -> Governor:
    """An Hvpa, which always sizes its pods once it has decided."""
    claim = _claim(hvpa.metadata, hvpa.spec.target_ref, GovernorRank.HVPA)
    return Governor(hvpa.kind, claim, resolve_hvpa_pods(hvpa), read_recommended_resources(hvpa.status))


def _claim(metadata: ObjectMeta, target: TargetReference, rank: GovernorRank) -> TargetClaim:
    created = metadata.creation_timestamp
    return TargetClaim(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        created=created.timestamp() if created is not None else math.nan,
        target=TargetRef(metadata.namespace, target.api_version, target.kind, target.name),
        selector=None,
        rank=rank,
    )


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


def get_governor(governing: VerticalPodAutoscaler | Hvpa | None) -> Governor | None:
    """The governor of a VPA or an Hvpa that was transformed, if it sizes pods."""
    return governing.governor if isinstance(governing, GoverningVpa | GoverningHvpa) else None


class VpaTransform:
    """Compiles a VPA. With `bounds` the bounds of its recommendation are kept, which only running pods need."""

    def __init__(self, report: ReportFailure, *, bounds: bool = False, annotations: tuple[str, ...] = _NO_KEYS) -> None:
        self._report = report
        self._bounds = bounds
        self._annotations = annotations

    def __call__(self, vpa: VerticalPodAutoscaler) -> VerticalPodAutoscaler:
        spec = msgspec.structs.replace(vpa.spec, target_ref=_interned_target(vpa.spec.target_ref))
        named = msgspec.structs.replace(vpa, kind=VPA.name, spec=spec)
        governor = _compile(compile_vpa_governor, named, self._report, bounds=self._bounds)
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
        named = msgspec.structs.replace(hvpa, kind=HVPA.name, spec=spec)
        governor = _compile(compile_hvpa_governor, named, self._report, bounds=self._bounds)
        metadata = _cut_metadata(hvpa.metadata, self._annotations)
        return GoverningHvpa(metadata=metadata, governor=governor)


def _compile(
    build: Callable[[_O], Governor | None], governing: _O, report: ReportFailure, *, bounds: bool
) -> Governor | None:
    try:
        governor = build(governing)
    except Exception as error:  # noqa: BLE001 - one object that cannot be compiled must not hide all others
        report(governing, error)
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
