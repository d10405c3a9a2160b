"""Which lines make a dump? Everything in the namespaces that are wanted, in one order whoever answers first.

What is forbidden is named, and the rest goes on. Only a server that does not answer at all is an error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any, Final

from trellis.api.kube.coordination import Event
from trellis.api.kube.workloads import ReplicaSet
from trellis.base.errors import KubeError, NotFound, UnreadableObject
from trellis.core.model.collected import Collected
from trellis.core.model.dump_lines import NODE_GROUPS, About, Component, Missing
from trellis.core.resize.freezing import CONFIG_MAP
from trellis.kube.client import Client
from trellis.kube.resources import (
    BUFFERS,
    CHECKPOINTS,
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    HPAS,
    HVPAS,
    JOBS,
    LEASES,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PDBS,
    POD_METRICS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    VPAS,
    Resource,
)
from trellis.kube.scales import ScaleLookups
from trellis.sources.cluster import components
from trellis.sources.cluster.cleaning import is_news
from trellis.sources.cluster.counting import Replicas
from trellis.sources.cluster.listing import UNREADABLE, pages_of, why_not
from trellis.sources.cluster.lists import Put, Reads, Tell, in_all_places, in_order
from trellis.sources.cluster.targets import Targets
from trellis.sources.cluster.where import Places, Wanted, find_places
from trellis.sources.cluster.writing import Writing
from trellis.sources.metrics_api import MetricsApi

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
# What decides about nodes: what is in namespaces, and what is in none.
_NODES_GO_BY: Final[tuple[Resource[Any], ...]] = (BUFFERS, PDBS, DAEMON_SETS, VOLUME_CLAIMS, PODS)
_STORAGE: Final[tuple[Resource[Any], ...]] = (VOLUMES, STORAGE_CLASSES)
# Where a cluster keeps Events about what is in no namespace.
_NO_NAMESPACE: Final = Places(("default",), ("default",))
_CLUSTER: Final = Places((), ("",))
# Of the node autoscaler: which ConfigMap declares groups.
_GROUPS_FLAG: Final = "kwok-node-groups"


def _silent(_done: int, _total: int) -> None:
    """For those who need not know how far it is."""


async def collected(client: Client, wanted: Wanted, now: float, tell: Tell = _silent) -> Collected:
    """What is in a cluster, ready to work with; raises `KubeError` if nobody answers."""
    writing = Writing()
    return Collected.of([*[line async for line in collect(client, wanted, writing, now, tell)], writing.end()])


async def collect(
    client: Client, wanted: Wanted, writing: Writing, now: float, tell: Tell = _silent
) -> AsyncGenerator[bytes, None]:
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
        all_pods=wanted.all_pods or bool(wanted.node_groups),
    )
    for line in writing.begin(about):
        yield line
    for each in missing:
        yield writing.lacks(each)
    for namespace in places.objects:
        yield writing.object(namespace, "v1", "Namespace")
    reading = _Reading(client, writing)
    async with aclosing(in_order(list(_lists(reading, wanted, places)), tell)) as lists:
        async for line in lists:
            yield line
    async for line in reading.scales():
        yield line
    async for line in reading.components(wanted.node_groups):
        yield line


def _lists(reading: _Reading, wanted: Wanted, places: Places) -> Iterator[Reads]:
    """All that is read in lists, in the order of a dump."""
    whole = _NODES_GO_BY if wanted.node_groups else (PODS,) if wanted.all_pods else ()
    yield partial(reading.objects, NODES, _CLUSTER)
    if wanted.node_groups:
        yield from (partial(reading.objects, resource, _CLUSTER) for resource in _STORAGE)
        if places.asked != _CLUSTER.asked:
            yield partial(reading.objects, NAMESPACES, _CLUSTER)
        yield partial(reading.everywhere, VOLUME_CLAIMS, places)
    for resource in _NAMESPACED:
        if resource in whole:
            yield partial(reading.everywhere, resource, places)
        elif not wanted.nodes_alone:
            yield partial(reading.objects, resource, places)
        elif resource is EVENTS:
            yield partial(reading.objects, resource, _NO_NAMESPACE)
    if not wanted.nodes_alone:
        yield partial(reading.usage, places)


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

    async def everywhere(self, resource: Resource[Any], places: Places, put: Put) -> None:
        """All of one kind in the cluster; where they may not be read, those that are wanted at least."""
        if places.asked == _CLUSTER.asked or await self._objects(resource, _CLUSTER, put):
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

    async def components(self, node_groups: str) -> AsyncIterator[bytes]:
        """The components themselves: how they run, who leads, whether somebody has stopped them; and groups of nodes.

        Groups are declared in the ConfigMap that the node autoscaler is told of, or else where they usually are.
        """
        namespace, where = components.NAMESPACE, node_groups
        try:
            found = await self._client.list_all(components.RUNNING, namespace)
        except (KubeError, UnreadableObject) as error:
            yield self._writing.lacks(Missing("Deployments of components", namespace, why_not(error)))
        else:
            for each in components.components_in(found.items):
                where = _told_groups(each) or where
                yield self._writing.component(each)
        named: list[tuple[Resource[Any], str]] = [(LEASES, name) for name in components.LEASES]
        for resource, name in (*named, (CONFIG_MAPS, CONFIG_MAP)):
            async for line in self._one(resource, namespace, name, f"{resource.kind} {name}"):
                yield line
        if node_groups:
            place, _, name = where.partition("/")
            async for line in self._one(CONFIG_MAPS, place, name, NODE_GROUPS):
                yield line

    async def _one(self, resource: Resource[Any], namespace: str, name: str, what: str) -> AsyncIterator[bytes]:
        """One object, if there is one."""
        try:
            got = await self._client.get(resource, name, namespace)
        except NotFound:
            return
        except (KubeError, UnreadableObject) as error:
            yield self._writing.lacks(Missing(what, namespace, why_not(error)))
        else:
            yield self._writing.object(got, resource.api_version, resource.kind)


def _told_groups(component: Component) -> str:
    """Where the node autoscaler is told that groups are declared; nothing of others."""
    return component.flags.get(_GROUPS_FLAG, "") if component.component == "nodes" else ""


def _is_kept(found: Any) -> bool:
    match found:
        case Event():
            return is_news(found)
        case ReplicaSet():
            # A Deployment keeps ten without pods, and they decide nothing.
            return bool(found.spec.replicas or found.status.replicas)
        case _:
            return True
