"""Which other autoscalers have to do with an Hvpa? Its own HPA and VPA, the user's, and those that come first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.api.kinds import HVPA
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.scaling import CrossVersionObjectReference, HorizontalPodAutoscaler
from trellis.api.parts import TargetReference
from trellis.api.resolve import UpdateMode, resolve_vpa
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.base.reason import Reason
from trellis.core.hvpa.yielding import yields_to


class Surroundings(msgspec.Struct, frozen=True):
    """The autoscalers of a namespace, or those of them that have to do with one Hvpa."""

    hvpas: Sequence[Hvpa]
    hpas: Sequence[HorizontalPodAutoscaler]
    vpas: Sequence[VerticalPodAutoscaler]


def is_about(target: TargetReference, kind: str, name: str) -> bool:
    """Whether a reference means the target; the version is not compared, because people write any."""
    return (target.kind, target.name) == (kind, name)


def is_owned(metadata: ObjectMeta, hvpa: Hvpa) -> bool:
    """Whether an object is this Hvpa's, and not that of one with the same name before it."""
    controller = metadata.controller
    return controller is not None and bool(controller.uid) and controller.uid == hvpa.metadata.uid


def vpa_of(hvpa: Hvpa, vpas: Iterable[VerticalPodAutoscaler]) -> VerticalPodAutoscaler | None:
    """The VPA that recommends for an Hvpa: its own, or the oldest of the user's in mode `Off`."""
    found = [each for each in vpas if _shares(hvpa, each)]
    owned = next((each for each in found if is_owned(each.metadata, hvpa)), None)
    others = [each for each in found if resolve_vpa(each).mode is UpdateMode.OFF]
    return owned or min(others, key=lambda each: _age(each.metadata), default=None)


def hpa_of(hvpa: Hvpa, hpas: Iterable[HorizontalPodAutoscaler]) -> HorizontalPodAutoscaler | None:
    """The HPA that drives an Hvpa: its own, or the oldest of the user's."""
    found = [each for each in hpas if _drives(each.spec.scale_target_ref, hvpa)]
    owned = next((each for each in found if is_owned(each.metadata, hvpa)), None)
    return owned or min(found, key=lambda each: _age(each.metadata), default=None)


def why_yields(hvpa: Hvpa, around: Surroundings) -> Reason | None:
    """Which other autoscaler comes first, if one does."""
    target = hvpa.spec.target_ref
    acting = any(
        _shares(hvpa, each) and not is_owned(each.metadata, hvpa) and resolve_vpa(each).mode is not UpdateMode.OFF
        for each in around.vpas
    )
    on_target = any(
        is_about(target, each.spec.scale_target_ref.kind, each.spec.scale_target_ref.name) for each in around.hpas
    )
    elder = any(
        is_about(target, each.spec.target_ref.kind, each.spec.target_ref.name)
        and _age(each.metadata) < _age(hvpa.metadata)
        for each in around.hvpas
    )
    return yields_to(acting_vpa=acting, hpa_on_target=on_target, elder_hvpa=elder)


def rivals_of(hvpa: Hvpa, around: Surroundings) -> Iterator[str]:
    """Whoever the Hvpa yields to: each of the others is asked about alone."""
    for other in around.hvpas:
        if why_yields(hvpa, Surroundings([other], [], [])) is not None:
            yield f"Hvpa {other.metadata.name}"
    for vpa in around.vpas:
        if why_yields(hvpa, Surroundings([], [], [vpa])) is not None:
            yield f"VerticalPodAutoscaler {vpa.metadata.name}"
    for hpa in around.hpas:
        if why_yields(hvpa, Surroundings([], [hpa], [])) is not None:
            yield f"HorizontalPodAutoscaler {hpa.metadata.name}"


def _drives(reference: CrossVersionObjectReference, hvpa: Hvpa) -> bool:
    """Whether an HPA means this Hvpa; another project's kind of that name is in a group of its own."""
    group = reference.api_version.rpartition("/")[0]
    return (reference.kind, reference.name) == (HVPA.name, hvpa.metadata.name) and group in ("", HVPA.group)


def _shares(hvpa: Hvpa, vpa: VerticalPodAutoscaler) -> bool:
    return is_about(hvpa.spec.target_ref, vpa.spec.target_ref.kind, vpa.spec.target_ref.name)


def _age(metadata: ObjectMeta) -> tuple[float, str]:
    created = metadata.creation_timestamp
    return created.timestamp() if created is not None else math.inf, metadata.name
