"""Which lines make a dump? Everything in the namespaces that are wanted, in one order whoever answers first.

What is forbidden is named, and the rest goes on. Only a server that does not answer at all is an error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from trellis.api.kube.config_maps import ConfigMap
from trellis.api.kube.coordination import Event
from trellis.api.kube.workloads import ReplicaSet
from trellis.base.errors import KubeError, NotFound, UnreadableObject
from trellis.core.model.collected import Collected
from trellis.core.model.dump_lines import About, Missing
from trellis.core.resize.freezing import CONFIG_MAP
from trellis.kube.client import Client
from trellis.kube.resources import (
    BUFFERS,
    CHECKPOINTS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    HPAS,
    HVPAS,
    JOBS,
    LEASES,
    LIMIT_RANGES,
    NODES,
    PDBS,
    POD_METRICS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    VPAS,
    Resource,
)
from trellis.kube.scales import ScaleLookups
from trellis.sources.cluster import components
from trellis.sources.cluster.cleaning import is_news
from trellis.sources.cluster.counting import Replicas
from trellis.sources.cluster.listing import UNREADABLE, pages_of, why_not
from trellis.sources.cluster.lists import Put, Tell, in_all_places, in_order
from trellis.sources.cluster.targets import Targets
from trellis.sources.cluster.where import Places, Wanted, find_places
from trellis.sources.cluster.writing import Writing
from trellis.sources.metrics_api import MetricsApi

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", True, ConfigMap)

# In this order they are in a dump: what explains a decision stands before the many that it is about.
_NAMESPACED: Final[tuple[Resource[Any], ...]] = (
    VPAS,
    HVPAS,
    BUFFERS,
    CHECKPOINTS,
    HPAS,
    PDBS,
    LIMIT_RANGES,
    RESOURCE_QUOTAS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    DAEMON_SETS,
    CRON_JOBS,
    JOBS,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    PODS,
    EVENTS,
)
_CLUSTER: Final = Places((), ("",))


def _silent(_done: int, _total: int) -> None:
    """For those who need not know how far it is."""


async def collected(client: Client, wanted: Wanted, now: float, tell: Tell = _silent) -> Collected:
    """What is in a cluster, ready to work with; raises `KubeError` if nobody answers."""
    writing = Writing()
    return Collected.of([*[line async for line in collect(client, wanted, writing, now, tell)], writing.end()])


async def collect(
    client: Client, wanted: Wanted, writing: Writing, now: float, tell: Tell = _silent
) -> AsyncIterator[bytes]:
    """The lines of a dump from its header on, but for the last; raises `KubeError` if nobody answers."""
    version = await client.version()
    places = await find_places(client, wanted)
    missing = list(places.missing)
    try:
        resizes = (await client.discover()).resizes_pods
    except (KubeError, UnreadableObject) as error:
        resizes = True
        missing.append(Missing("kinds that are served", "", why_not(error)))
    about = About(
        now,
        version.git_version,
        resizes,
        places.names,
        wanted.patterns,
        everywhere=not wanted.patterns,
        all_pods=wanted.all_pods,
    )
    for line in writing.begin(about):
        yield line
    for each in missing:
        yield writing.lacks(each)
    for namespace in places.objects:
        yield writing.object(namespace, "v1", "Namespace")
    reading = _Reading(client, writing)
    lists = [partial(reading.objects, NODES, _CLUSTER)]
    lists += [
        partial(reading.all_pods if wanted.all_pods and resource is PODS else reading.objects, resource, places)
        for resource in _NAMESPACED
    ]
    async for line in in_order([*lists, partial(reading.usage, places)], tell):
        yield line
    async for line in reading.scales():
        yield line
    async for line in reading.components():
        yield line


class _Reading:
    """Asks the server for one thing after the other, and has it written."""

    def __init__(self, client: Client, writing: Writing) -> None:
        self._client = client
        self._writing = writing
        self._targets = Targets()
        self._replicas = Replicas(client)

    async def objects(self, resource: Resource[Any], places: Places, put: Put) -> None:
        """All objects of one kind, where they are wanted."""
        await self._objects(resource, places, put)

    async def all_pods(self, resource: Resource[Any], places: Places, put: Put) -> None:
        """All pods of the cluster; where they may not be read, those that are wanted at least."""
        if await self._objects(resource, _CLUSTER, put):
            await self._objects(resource, places, put)

    async def _objects(self, resource: Resource[Any], places: Places, put: Put) -> list[Missing]:
        writing = self._writing

        async def read(place: str) -> str:
            try:
                async for page in pages_of(self._client, resource, place):
                    lines = []
                    for each in filter(_is_kept, page.items):
                        self._targets.see(each)
                        lines.append(writing.object(each, resource.api_version, resource.kind))
                    for unread in page.rejected:
                        what = f"{resource.kind} {unread.name}"
                        lines.append(writing.lacks(Missing(what, unread.namespace, f"{UNREADABLE}: {unread.message}")))
                    await put(lines)
            except (KubeError, UnreadableObject) as error:
                return why_not(error, resource)
            return ""

        missing = await in_all_places(resource.kind, places, read)
        await put([writing.lacks(each) for each in missing])
        return missing

    async def usage(self, places: Places, put: Put) -> None:
        """What is used now, as metrics.k8s.io has it."""

        async def read(place: str) -> str:
            try:
                batch = await MetricsApi(self._client, place).fetch()
            except KubeError as error:
                return why_not(error, POD_METRICS)
            await put([self._writing.usage(batch.samples)])
            return ""

        await put([self._writing.lacks(each) for each in await in_all_places(POD_METRICS.kind, places, read)])

    async def scales(self) -> AsyncIterator[bytes]:
        """What the scales of kinds say that are not well known, and those of their controllers."""
        lookups = ScaleLookups(self._client, draw=lambda: 0.0)
        while unasked := self._targets.take_unasked():
            answers = await lookups.find_all(unasked)
            for target in unasked:
                self._targets.see_controller(target.namespace, answers[target].controller)
                replicas = await self._replicas.find(target) if target in self._targets.counted else None
                yield self._writing.scale(target, answers[target], replicas)

    async def components(self) -> AsyncIterator[bytes]:
        """The components themselves: how they run, who leads, and whether somebody has stopped them."""
        namespace = components.NAMESPACE
        try:
            found = await self._client.list_all(components.RUNNING, namespace)
        except (KubeError, UnreadableObject) as error:
            yield self._writing.lacks(Missing("Deployments of components", namespace, why_not(error)))
        else:
            for each in components.components_in(found.items):
                yield self._writing.component(each)
        named: list[tuple[Resource[Any], str]] = [(LEASES, name) for name in components.LEASES]
        for resource, name in (*named, (CONFIG_MAPS, CONFIG_MAP)):
            try:
                got = await self._client.get(resource, name, namespace)
            except NotFound:
                continue
            except (KubeError, UnreadableObject) as error:
                yield self._writing.lacks(Missing(f"{resource.kind} {name}", namespace, why_not(error)))
            else:
                yield self._writing.object(got, resource.api_version, resource.kind)


def _is_kept(found: Any) -> bool:
    match found:
        case Event():
            return is_news(found)
        case ReplicaSet():
            # A Deployment keeps ten without pods, and they decide nothing.
            return bool(found.spec.replicas or found.status.replicas)
        case _:
            return True
