"""Collects a cluster's objects as lines of a dump, in an order that does not depend on the order of responses.

Forbidden kinds are reported and the others collected. Only an unreachable server is an error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Final, TypeAlias

from trellis.api.kube.coordination import Event
from trellis.api.kube.nodes import Node
from trellis.api.kube.workloads import ReplicaSet
from trellis.base.errors import KubeError, NotFound, UnreadableObject
from trellis.core.cluster.dump_format import NODE_GROUPS, DumpedComponent, DumpInfo, MissingData
from trellis.core.cluster.state import ClusterState
from trellis.core.explain.component_decisions.reported_groups import ReportedGroups
from trellis.core.resize.freeze import CLUSTER_FREEZE_CONFIG_MAP
from trellis.kube.client import Client
from trellis.kube.resources import (
    BUFFERS,
    CHECKPOINTS,
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    DEVICE_CLAIM_TEMPLATES,
    DEVICE_CLAIMS,
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
    RESOURCE_SLICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    VPAS,
    Resource,
)
from trellis.kube.scales import ScaleLookups
from trellis.sources.cluster import components
from trellis.sources.cluster.dump_writer import DumpWriter
from trellis.sources.cluster.lists import (
    UNREADABLE,
    CollectionScope,
    NamespaceScope,
    PutLines,
    ReadList,
    ReportLists,
    describe_error,
    list_pages,
    read_in_namespaces,
    read_in_order,
    resolve_namespaces,
)
from trellis.sources.cluster.redaction import is_relevant_event
from trellis.sources.cluster.scale_targets import ScaleReplicas, ScaleTargets
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
_DECIDING_ABOUT_NODES: Final[tuple[Resource[Any], ...]] = (BUFFERS, PDBS, DAEMON_SETS, VOLUME_CLAIMS, PODS)
_CLAIMS: Final[tuple[Resource[Any], ...]] = (VOLUME_CLAIMS, DEVICE_CLAIMS, DEVICE_CLAIM_TEMPLATES)
_CLAIMED: Final[tuple[Resource[Any], ...]] = (VOLUMES, STORAGE_CLASSES, RESOURCE_SLICES)
# Where a cluster keeps Events about what is in no namespace.
_NO_NAMESPACE: Final = NamespaceScope(("default",), ("default",))
_CLUSTER: Final = NamespaceScope((), ("",))
# Of the node autoscaler: which ConfigMap declares groups.
_GROUPS_FLAG: Final = "kwok-node-groups"
# Of the updater: which ConfigMap freezes the cluster.
_FREEZE_FLAG: Final = "freeze-config-map"


# Asks the providers of the node autoscaler for their groups, by its components and all nodes; None if none has to be
# asked. The texts say which did not answer.
QueryGroups: TypeAlias = Callable[
    [Client, Sequence[DumpedComponent], Collection[Node]], Awaitable[tuple[ReportedGroups, Sequence[str]] | None]
]


def _ignore_progress(_done: int, _total: int) -> None:
    """The default for callers that show no progress."""


async def collect_state(
    client: Client,
    scope: CollectionScope,
    now: float,
    report: ReportLists = _ignore_progress,
    *,
    query_groups: QueryGroups | None = None,
) -> ClusterState:
    """The state of a cluster; raises `KubeError` if the API server does not respond."""
    writer = DumpWriter()
    lines = [line async for line in collect_lines(client, scope, writer, now, report, query_groups=query_groups)]
    return ClusterState.from_dump([*lines, writer.encode_end()])


async def collect_lines(
    client: Client,
    scope: CollectionScope,
    writer: DumpWriter,
    now: float,
    report: ReportLists = _ignore_progress,
    *,
    query_groups: QueryGroups | None = None,
) -> AsyncGenerator[bytes, None]:
    """The lines of a dump from its header on, but for the last; raises `KubeError` if the server does not respond.

    `query_groups` is called if node groups are in the scope.
    """
    version = await client.version()
    namespaces = await resolve_namespaces(client, scope)
    missing = list(namespaces.missing)
    try:
        resizes = (await client.discover()).resizes_pods
    except (KubeError, UnreadableObject) as error:
        resizes = True
        missing.append(MissingData("kinds that are served", "", describe_error(error)))
    info = DumpInfo(
        now,
        version.git_version,
        resizes,
        namespaces.names,
        scope.patterns,
        everywhere=not scope.patterns,
        all_pods=scope.all_pods or bool(scope.node_groups),
    )
    for line in writer.encode_start(info):
        yield line
    for missing_data in missing:
        yield writer.encode_missing(missing_data)
    for namespace in namespaces.objects:
        yield writer.encode_object(namespace, "v1", "Namespace")
    reader = _ClusterReader(client, writer, query_groups if scope.node_groups else None)
    async with aclosing(read_in_order(list(_build_lists(reader, scope, namespaces)), report)) as lists:
        async for line in lists:
            yield line
    async for line in reader.read_scales():
        yield line
    async for line in reader.read_components(scope):
        yield line
    async for line in reader.read_groups():
        yield line


def _build_lists(reader: _ClusterReader, scope: CollectionScope, namespaces: NamespaceScope) -> Iterator[ReadList]:
    """The lists to read, in the order of a dump."""
    cluster_wide = _DECIDING_ABOUT_NODES if scope.node_groups else (PODS,) if scope.all_pods else ()
    yield partial(reader.read_objects, NODES, _CLUSTER)
    if scope.node_groups:
        yield from (partial(reader.read_objects, resource, _CLUSTER) for resource in _CLAIMED)
        if namespaces.listed != _CLUSTER.listed:
            yield partial(reader.read_objects, NAMESPACES, _CLUSTER)
        yield from (partial(reader.read_cluster_wide, resource, namespaces) for resource in _CLAIMS)
    for resource in _NAMESPACED:
        if resource in cluster_wide:
            yield partial(reader.read_cluster_wide, resource, namespaces)
        elif not scope.nodes_only:
            yield partial(reader.read_objects, resource, namespaces)
        elif resource is EVENTS:
            yield partial(reader.read_objects, resource, _NO_NAMESPACE)
    if not scope.nodes_only:
        yield partial(reader.read_usage, namespaces)


class _ClusterReader:
    """Reads objects, usage and scales from the server, and encodes them as lines."""

    def __init__(self, client: Client, writer: DumpWriter, query_groups: QueryGroups | None) -> None:
        self._client = client
        self._writer = writer
        self._query_groups = query_groups
        # Kept for those who know node groups.
        self._nodes: list[Node] = []
        self._components: tuple[DumpedComponent, ...] = ()
        self._targets = ScaleTargets()
        self._replicas = ScaleReplicas(client)

    async def read_objects(self, resource: Resource[Any], namespaces: NamespaceScope, put: PutLines) -> None:
        """All objects of one kind in the requested namespaces."""
        await self._read_listed(resource, namespaces, put)

    async def read_cluster_wide(self, resource: Resource[Any], namespaces: NamespaceScope, put: PutLines) -> None:
        """All objects of one kind in the cluster; if forbidden, those of the requested namespaces."""
        if namespaces.listed == _CLUSTER.listed or await self._read_listed(resource, _CLUSTER, put):
            await self._read_listed(resource, namespaces, put)

    async def _read_listed(
        self, resource: Resource[Any], namespaces: NamespaceScope, put: PutLines
    ) -> list[MissingData]:
        writer = self._writer

        async def read(namespace: str) -> str:
            try:
                async for page in list_pages(self._client, resource, namespace):
                    lines = []
                    for item in filter(_is_relevant, page.items):
                        self._targets.add_object(item)
                        if isinstance(item, Node) and self._query_groups is not None:
                            self._nodes.append(item)
                        lines.append(writer.encode_object(item, resource.api_version, resource.kind))
                    for rejected in page.rejected:
                        name = f"{resource.kind} {rejected.name}"
                        lines.append(
                            writer.encode_missing(
                                MissingData(name, rejected.namespace, f"{UNREADABLE}: {rejected.message}")
                            )
                        )
                    await put(lines)
            except (KubeError, UnreadableObject) as error:
                return describe_error(error, resource)
            return ""

        missing = await read_in_namespaces(resource.kind, namespaces, read)
        await put([writer.encode_missing(missing_data) for missing_data in missing])
        return missing

    async def read_usage(self, namespaces: NamespaceScope, put: PutLines) -> None:
        """Current usage from metrics.k8s.io."""

        async def read(namespace: str) -> str:
            try:
                batch = await MetricsApi(self._client, namespace).fetch()
            except KubeError as error:
                return describe_error(error, POD_METRICS)
            await put([self._writer.encode_usage(batch.samples)])
            return ""

        await put(
            [
                self._writer.encode_missing(missing_data)
                for missing_data in await read_in_namespaces(POD_METRICS.kind, namespaces, read)
            ]
        )

    async def read_scales(self) -> AsyncIterator[bytes]:
        """The scales of kinds that are not well known, and of their controllers."""
        lookups = ScaleLookups(self._client, draw=lambda: 0.0)
        while unread_scales := self._targets.pop_unread():
            scales = await lookups.find_all(unread_scales)
            for target in unread_scales:
                self._targets.add_controller(target.namespace, scales[target].controller)
                replicas = await self._replicas.read(target) if target in self._targets.with_replicas else None
                yield self._writer.encode_scale(target, scales[target], replicas)

    async def read_components(self, scope: CollectionScope) -> AsyncIterator[bytes]:
        """The components themselves: how they run, who leads, whether changes are frozen; and declared node groups."""
        deployments, missing = await self._list_component_deployments()
        for item in missing:
            yield self._writer.encode_missing(item)
        read = partial(components.read_config_map, self._client)
        self._components = found = await components.find_components(deployments, read)
        for component in found:
            yield self._writer.encode_component(component)
        for namespace in sorted({component.namespace for component in found} | {components.NAMESPACE}):
            for name in components.LEASES:
                async for line in self._read_object(LEASES, namespace, name, f"{LEASES.kind} {name}"):
                    yield line
        switch = _find_flag(found, "updater", _FREEZE_FLAG) or f"{components.NAMESPACE}/{CLUSTER_FREEZE_CONFIG_MAP}"
        namespace, _, name = switch.partition("/")
        async for line in self._read_object(CONFIG_MAPS, namespace, name, f"{CONFIG_MAPS.kind} {name}"):
            yield line
        if scope.node_groups:
            flag = "" if scope.chosen else _find_flag(found, "nodes", _GROUPS_FLAG)
            config_map = flag or scope.node_groups
            namespace, _, name = config_map.partition("/")
            async for line in self._read_object(CONFIG_MAPS, namespace, name, NODE_GROUPS):
                yield line

    async def read_groups(self) -> AsyncIterator[bytes]:
        """The groups of the node autoscaler's providers, which only they know."""
        if self._query_groups is None:
            return
        answers = await self._query_groups(self._client, self._components, self._nodes)
        if answers is None:
            return
        groups, failures = answers
        yield self._writer.encode_reported_groups(groups)
        for failure in failures:
            yield self._writer.encode_missing(MissingData(NODE_GROUPS, "", failure))

    async def _list_component_deployments(
        self,
    ) -> tuple[list[components.ComponentDeployment], list[MissingData]]:
        """Deployments of all namespaces; of the usual ones where all together may not be listed."""
        with suppress(KubeError, UnreadableObject):
            return list((await self._client.list_all(components.COMPONENT_DEPLOYMENTS)).items), []
        found: list[components.ComponentDeployment] = []
        missing: list[MissingData] = []
        for namespace in components.NAMESPACES:
            try:
                found += (await self._client.list_all(components.COMPONENT_DEPLOYMENTS, namespace)).items
            except (KubeError, UnreadableObject) as error:
                missing.append(MissingData("Deployments of components", namespace, describe_error(error)))
        return found, [] if found else missing[:1]

    async def _read_object(
        self, resource: Resource[Any], namespace: str, name: str, title: str
    ) -> AsyncIterator[bytes]:
        """One object, if it exists."""
        try:
            item = await self._client.get(resource, name, namespace)
        except NotFound:
            return
        except (KubeError, UnreadableObject) as error:
            yield self._writer.encode_missing(MissingData(title, namespace, describe_error(error)))
        else:
            yield self._writer.encode_object(item, resource.api_version, resource.kind)


def _find_flag(found: Iterable[DumpedComponent], component: str, flag: str) -> str:
    """The value of a component's flag; empty if it is not set."""
    values = (item.flags.get(flag, "") for item in found if item.component == component)
    return next(filter(None, values), "")


def _is_relevant(item: Any) -> bool:
    match item:
        case Event():
            return is_relevant_event(item)
        case ReplicaSet():
            # A Deployment keeps ten old ReplicaSets without pods, which decide nothing.
            return bool(item.spec.replicas or item.status.replicas)
        case _:
            return True
