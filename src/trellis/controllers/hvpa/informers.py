"""Informers of the Hvpa controller: Hvpas, the HPAs and VPAs beside them, and pods.

Targets are not watched: they may be of any kind with a scale, which is read when it is needed. Everything else is
indexed by what it is about, so that a reconcile costs what concerns one Hvpa, and not what a namespace holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.base.selectors import Selector
from trellis.controllers.hvpa.settings import HvpaControllerSettings
from trellis.core.cluster.store import BY_OWNER, T, index_by_owner, key_of
from trellis.core.hvpa.autoscalers import RelatedAutoscalers
from trellis.core.hvpa.view_builder import HvpaPod, WatchedHvpa, select_live_pods
from trellis.kube.discovery import Served
from trellis.kube.resources import HVPAS, VPAS
from trellis.kube.watch.informer import Informer
from trellis.runtime.cached_kinds import FULL_HPAS, FULL_VPAS, HVPA_PODS, WATCHED_HVPAS, follow_in
from trellis.runtime.informers import Informers
from trellis.runtime.label_index import BY_LABELS, candidate_pods
from trellis.runtime.shared_informers import FollowedKind

BY_TARGET: Final = "target"

_Targeting: TypeAlias = Hvpa | VerticalPodAutoscaler


def list_followed_kinds(settings: HvpaControllerSettings) -> tuple[FollowedKind, ...]:
    """The kinds that the controller follows and others of its process may follow as well."""
    return follow_in(settings.scope.vpa_object_namespace, WATCHED_HVPAS, HVPA_PODS, FULL_HPAS, FULL_VPAS)


class HvpaInformers:
    """All that the controller follows."""

    def __init__(self, informers: Informers, served: Served) -> None:
        self.hvpas: Informer[WatchedHvpa] = informers.follow(WATCHED_HVPAS, indexes={BY_TARGET: _index_by_target})
        self.pods: Informer[HvpaPod] = informers.follow(HVPA_PODS, indexes=BY_LABELS)
        self.hpas: Informer[HorizontalPodAutoscaler] = informers.follow(
            FULL_HPAS, indexes={BY_TARGET: _index_hpa_by_target, BY_OWNER: index_by_owner}
        )
        # Without the definition there are no VPAs, and an HPA alone may be enough.
        self.vpas: Informer[VerticalPodAutoscaler] = informers.follow(
            FULL_VPAS, indexes={BY_TARGET: _index_by_target, BY_OWNER: index_by_owner}, served=served.serves(VPAS)
        )

    def list_hvpas(self, namespace: str, kind: str, name: str) -> tuple[Hvpa, ...]:
        """The Hvpas with this target."""
        return self.hvpas.by_index(BY_TARGET, _group(namespace, kind, name))

    def find_related(self, hvpa: Hvpa) -> RelatedAutoscalers:
        """The autoscalers that have to do with an Hvpa: about its target or itself, its own, or in its own's place."""
        namespace, name, reference = hvpa.metadata.namespace, hvpa.metadata.name, hvpa.spec.target_ref
        target, itself = (
            _group(namespace, reference.kind, reference.name),
            _group(namespace, HVPAS.kind, name),
        )
        hpas = (
            *self.hpas.by_index(BY_TARGET, target),
            *self.hpas.by_index(BY_TARGET, itself),
            *_owned(self.hpas, hvpa),
        )
        vpas = (*self.vpas.by_index(BY_TARGET, target), *_owned(self.vpas, hvpa))
        return RelatedAutoscalers(self.hvpas.by_index(BY_TARGET, target), _unique(hpas), _unique(vpas))

    def list_pods(self, namespace: str, selector: Selector) -> list[HvpaPod]:
        """The pods of a target."""
        return select_live_pods(candidate_pods(self.pods, namespace, selector), selector)


def _owned(informer: Informer[T], hvpa: Hvpa) -> Iterable[T]:
    """The autoscalers that an Hvpa owns, and the one with the name of an owned one."""
    namesake = informer.get(*key_of(hvpa))
    return (*informer.by_index(BY_OWNER, hvpa.metadata.uid), *(() if namesake is None else (namesake,)))


def _unique(autoscalers: Iterable[T]) -> tuple[T, ...]:
    return tuple({key_of(autoscaler): autoscaler for autoscaler in autoscalers}.values())


def _group(namespace: str, kind: str, name: str) -> str:
    return f"{namespace}/{kind}/{name}"


def _index_by_target(autoscaler: _Targeting) -> tuple[str, ...]:
    reference = autoscaler.spec.target_ref
    return (_group(autoscaler.metadata.namespace, reference.kind, reference.name),)


def _index_hpa_by_target(hpa: HorizontalPodAutoscaler) -> tuple[str, ...]:
    reference = hpa.spec.scale_target_ref
    return (_group(hpa.metadata.namespace, reference.kind, reference.name),)
