"""Informers of the updater: every kind that plans depend on."""

from __future__ import annotations

from typing import Any, Final

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.coordination import ConfigMap
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.controllers.updater.settings import UpdaterSettings
from trellis.core.cluster.store import BY_NAMESPACE, index_by_namespace
from trellis.kube.discovery import Served
from trellis.kube.resources import CONFIG_MAPS, HPAS, HVPAS, LIMIT_RANGES, NODES, VPAS
from trellis.kube.watch.informer import Informer
from trellis.kube.watch.selection import Selection
from trellis.runtime.cached_kinds import (
    FREEZING_NAMESPACES,
    RESIZABLE_PODS,
    RESIZING_HVPAS,
    RESIZING_VPAS,
    SCALED_WORKLOADS,
    SCALING_HPAS,
    follow_in,
    follow_pods,
)
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import OptionalKind
from trellis.runtime.shared_informers import FollowedKind

# Upstream's: pods that have a node and have not ended.
_RUNNING: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

# An API server that starts anew does not serve custom resources for a moment, which must not cost pods their boosts.
_GONE_SECONDS: Final = 60.0

# Upstream's roles have no rules for these.
_NO_HVPAS: Final = OptionalKind("pods are not sized by Hvpas")
_NO_HPAS: Final = OptionalKind("conflicts with HPAs that scale by the same resource are not detected")
# An installation for some namespaces may have Roles only, and none for kinds without a namespace.
_NO_NODES: Final = OptionalKind("whether the replacement of an evicted pod fits on a node is not checked")
_NO_NAMESPACES: Final = OptionalKind("the freeze annotation of namespaces has no effect")


def list_followed_kinds(settings: UpdaterSettings) -> tuple[FollowedKind, ...]:
    """The kinds that the updater follows and others of its process may follow as well."""
    own = settings.scope.vpa_object_namespace
    return (
        follow_pods(RESIZABLE_PODS, _pod_namespaces(settings), _RUNNING),
        FollowedKind(FREEZING_NAMESPACES, Selection(field_selector=_namespace_selector(own))),
        *follow_in(own, RESIZING_VPAS, RESIZING_HVPAS, SCALING_HPAS, *SCALED_WORKLOADS),
    )


class UpdaterInformers:
    """All that the updater follows."""

    def __init__(self, informers: Informers, settings: UpdaterSettings, served: Served) -> None:
        own = settings.scope.vpa_object_namespace
        self.sees_all_pods = not _pod_namespaces(settings)
        # Where the definition is removed there are no VPAs, and boosts that they gave are taken back. Where it is not
        # there yet, it is waited for.
        self.vpas: Informer[VerticalPodAutoscaler] = informers.follow(
            RESIZING_VPAS, served=served.serves(VPAS) or None, removal_grace=_GONE_SECONDS
        )
        self.pods: Informer[Pod] = informers.follow(
            RESIZABLE_PODS, namespaces=_pod_namespaces(settings), field_selector=_RUNNING
        )
        self.limit_ranges: Informer[LimitRange] = informers.follow(
            LIMIT_RANGES, indexes={BY_NAMESPACE: index_by_namespace}
        )
        self.nodes: Informer[Node] = informers.follow(NODES, dispensable=_NO_NODES if own else None)
        self.namespaces: Informer[KubeObject] = informers.follow(
            FREEZING_NAMESPACES,
            field_selector=_namespace_selector(own),
            dispensable=_NO_NAMESPACES,
        )
        self.workloads: dict[str, Informer[Any]] = {
            kind.resource.kind: informers.follow(kind) for kind in SCALED_WORKLOADS
        }
        self.hvpas: Informer[Hvpa] = informers.follow(
            RESIZING_HVPAS, dispensable=_NO_HVPAS, served=served.serves(HVPAS)
        )
        self.hpas: Informer[HorizontalPodAutoscaler] = informers.follow(
            SCALING_HPAS, dispensable=_NO_HPAS, served=served.serves(HPAS)
        )
        self.switch: Informer[ConfigMap] | None = None
        if settings.disruption.freeze_config_map:
            place, _, name = settings.disruption.freeze_config_map.partition("/")
            lack = OptionalKind(f"the freeze ConfigMap {place}/{name} has no effect", place, name)
            self.switch = informers.follow(
                CONFIG_MAPS, namespaces=(place,), field_selector=f"metadata.name={name}", dispensable=lack
            )


def _pod_namespaces(settings: UpdaterSettings) -> tuple[str, ...]:
    """The namespaces whose pods are followed: none if all are, because whether a successor fits depends on them."""
    return () if settings.disruption.require_fit else settings.scope.vpa_object_namespace


def _namespace_selector(namespaces: tuple[str, ...]) -> str:
    """The Namespace objects to follow. A field selector names one object or selects by what it is not."""
    return f"metadata.name={namespaces[0]}" if len(namespaces) == 1 else ""
