"""What does the Hvpa controller see of the cluster? Hvpas, the autoscalers beside them, and pods.

Targets are not watched: they may be of any kind that has a scale, and that is asked for when it is needed. Everything
else is found by what it is about, so that a look costs what there is about one Hvpa, and not what a namespace holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from trellis.api.hvpa import Hvpa
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.base.selectors import Selector
from trellis.core.hvpa.surroundings import Surroundings
from trellis.core.hvpa.viewing import HvpaPod, WatchedHvpa, pods_of
from trellis.core.model.keys import BY_OWNER, T, key_of, owned_by
from trellis.kube.informer import Informer
from trellis.kube.resources import HPAS, HVPAS, PODS, VPAS
from trellis.kube.served import Served
from trellis.runtime.informers import Informers
from trellis.runtime.labelled import BY_LABELS, candidates

HVPA_PODS: Final = PODS.read_as(HvpaPod)
WATCHED_HVPAS: Final = HVPAS.read_as(WatchedHvpa)

BY_TARGET: Final = "target"

_Targeting: TypeAlias = Hvpa | VerticalPodAutoscaler


class Watching:
    """All that the controller follows."""

    def __init__(self, informers: Informers, served: Served) -> None:
        self.hvpas: Informer[WatchedHvpa] = informers.follow(WATCHED_HVPAS, indexes={BY_TARGET: _targeted})
        self.pods: Informer[HvpaPod] = informers.follow(HVPA_PODS, indexes=BY_LABELS)
        self.hpas: Informer[HorizontalPodAutoscaler] = informers.follow(
            HPAS, indexes={BY_TARGET: _scaled, BY_OWNER: owned_by}
        )
        # Without the definition there are no VPAs, and an HPA alone may be enough.
        self.vpas: Informer[VerticalPodAutoscaler] = informers.follow(
            VPAS, indexes={BY_TARGET: _targeted, BY_OWNER: owned_by}, served=served.serves(VPAS)
        )

    def hvpas_of(self, namespace: str, kind: str, name: str) -> tuple[Hvpa, ...]:
        """The Hvpas with this target."""
        return self.hvpas.by(BY_TARGET, _target(namespace, kind, name))

    def around(self, hvpa: Hvpa) -> Surroundings:
        """The autoscalers that have to do with an Hvpa: about its target or itself, its own, or in its own's place."""
        namespace, name, reference = hvpa.metadata.namespace, hvpa.metadata.name, hvpa.spec.target_ref
        target, itself = _target(namespace, reference.kind, reference.name), _target(namespace, HVPAS.kind, name)
        hpas = (*self.hpas.by(BY_TARGET, target), *self.hpas.by(BY_TARGET, itself), *_owned(self.hpas, hvpa))
        vpas = (*self.vpas.by(BY_TARGET, target), *_owned(self.vpas, hvpa))
        return Surroundings(self.hvpas.by(BY_TARGET, target), _once(hpas), _once(vpas))

    def pods_of(self, namespace: str, selector: Selector) -> list[HvpaPod]:
        """The pods of a target."""
        return pods_of(candidates(self.pods, namespace, selector), selector)


def _owned(informer: Informer[T], hvpa: Hvpa) -> Iterable[T]:
    """Those of an Hvpa, and whoever has the name that its own one would have."""
    namesake = informer.get(*key_of(hvpa))
    return (*informer.by(BY_OWNER, hvpa.metadata.uid), *(() if namesake is None else (namesake,)))


def _once(found: Iterable[T]) -> tuple[T, ...]:
    return tuple({key_of(each): each for each in found}.values())


def _target(namespace: str, kind: str, name: str) -> str:
    return f"{namespace}/{kind}/{name}"


def _targeted(found: _Targeting) -> tuple[str, ...]:
    reference = found.spec.target_ref
    return (_target(found.metadata.namespace, reference.kind, reference.name),)


def _scaled(hpa: HorizontalPodAutoscaler) -> tuple[str, ...]:
    reference = hpa.spec.scale_target_ref
    return (_target(hpa.metadata.namespace, reference.kind, reference.name),)
