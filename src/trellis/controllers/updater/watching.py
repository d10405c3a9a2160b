"""What does the updater see of the cluster? Informers, each of a kind and no larger than plans need it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from trellis.api.hvpa import Hvpa
from trellis.api.kube.config_maps import ConfigMap
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.controllers.updater.settings import UpdaterSettings
from trellis.controllers.updater.slimming import (
    slim_hpa,
    slim_hvpa,
    slim_namespace,
    slim_pod,
    slim_vpa,
    slim_workload,
)
from trellis.core.model.keys import BY_NAMESPACE, in_namespace
from trellis.kube.backoff import Draw
from trellis.kube.client import Client
from trellis.kube.informer import Informer
from trellis.kube.reflector import Selection
from trellis.kube.resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    HPAS,
    HVPAS,
    JOBS,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    VPAS,
    Resource,
)
from trellis.kube.served import Served
from trellis.runtime.unseen import Dispensable, Unseen

WORKLOADS: Final[tuple[Resource[Any], ...]] = (
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
    CRON_JOBS,
    REPLICATION_CONTROLLERS,
)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", True, ConfigMap)

# Upstream's: pods that have a node and have not ended.
_RUNNING: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

# Upstream's roles have no rules for these.
_NO_HVPAS: Final = Dispensable("Hvpas do not size pods")
_NO_HPAS: Final = Dispensable("an HPA that scales by the same resource is not noticed")
_NO_NAMESPACES: Final = Dispensable("the freeze annotation on namespaces is not seen")

# After so long without contact what is known is no longer acted on.
TRUSTED_SECONDS: Final = 5.0


class Watching:
    """All informers of the updater. `run` in a task of its own."""

    def __init__(
        self,
        client: Client,
        settings: UpdaterSettings,
        served: Served,
        *,
        draw: Draw,
        unseen: Unseen,
    ) -> None:
        own = settings.scope.vpa_object_namespace

        def informer(
            resource: Resource[Any],
            slim: Callable[[Any], Any] | None = None,
            *,
            namespace: str = own,
            field_selector: str = "",
            dispensable: Dispensable | None = None,
        ) -> Informer[Any]:
            return Informer(
                client,
                resource,
                draw=draw,
                indexes={BY_NAMESPACE: in_namespace} if resource is LIMIT_RANGES else None,
                selection=Selection(namespace=namespace if resource.namespaced else "", field_selector=field_selector),
                report=unseen.reporting(resource, dispensable),
                slim=slim,
            )

        self._unseen = unseen
        # Whether a successor fits depends on the pods of all namespaces.
        everywhere = settings.disruption.require_fit or not own
        self.knows_rooms = everywhere
        self.vpas: Informer[VerticalPodAutoscaler] = informer(VPAS, slim_vpa)
        unseen.after(self.vpas)
        self.pods: Informer[Pod] = informer(
            PODS, slim_pod, namespace="" if everywhere else own, field_selector=_RUNNING
        )
        self.workloads: dict[str, Informer[Any]] = {each.kind: informer(each, slim_workload) for each in WORKLOADS}
        self.limit_ranges: Informer[LimitRange] = informer(LIMIT_RANGES)
        self.nodes: Informer[Node] = informer(NODES)
        self.namespaces: Informer[KubeObject] = informer(
            NAMESPACES.as_metadata(),
            slim_namespace,
            field_selector=f"metadata.name={own}" if own else "",
            dispensable=_NO_NAMESPACES,
        )
        self.hvpas: Informer[Hvpa] | None = None
        if served.serves(HVPAS):
            self.hvpas = informer(HVPAS, slim_hvpa, dispensable=_NO_HVPAS)
        self.hpas: Informer[HorizontalPodAutoscaler] | None = None
        if served.serves(HPAS):
            self.hpas = informer(HPAS, slim_hpa, dispensable=_NO_HPAS)
        self.switch: Informer[ConfigMap] | None = None
        if settings.disruption.freeze_config_map:
            place, _, name = settings.disruption.freeze_config_map.partition("/")
            lack = Dispensable(f"the freeze switch in the ConfigMap {place}/{name} is not seen", place, name)
            self.switch = informer(
                CONFIG_MAPS, namespace=place, field_selector=f"metadata.name={name}", dispensable=lack
            )

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """All that are followed."""
        sometimes = tuple(each for each in (self.hvpas, self.hpas, self.switch) if each is not None)
        always = (self.vpas, self.pods, self.limit_ranges, self.nodes, self.namespaces)
        return (*always, *self.workloads.values(), *sometimes)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run(), name=f"watch {informer.resource.full_name}")

    async def wait_until_synced(self) -> None:
        """Return once everything has been seen that may be."""
        for informer in self.informers:
            await self._unseen.wait_for(informer)

    def unseen(self) -> list[str]:
        """The kinds of which not everything has been seen that may be."""
        return self._unseen.not_yet_seen(self.informers)

    def why_not_trusted(self) -> str | None:
        """Why nothing may be done by what is known, if so: who has lost sight of pods must not disturb them."""
        for informer in self.informers:
            if self._unseen.is_lacking(informer):
                continue
            staleness = informer.staleness()
            if not staleness.synced:
                return f"{informer.resource.full_name} could not be listed yet"
            age = staleness.contact_age or 0.0
            if not staleness.connected and age > TRUSTED_SECONDS:
                return f"{informer.resource.full_name} could not be watched for {age:.0f} s"
        return None
