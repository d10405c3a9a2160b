"""The plug-in of the provider clusterapi: follows the objects of the management cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec

from trellis.api.cluster_api.machines import ClusterApiMachine, InfrastructureTemplate, MachineCluster, ScalableMachines
from trellis.base.errors import KubeError, UnreadableObject
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.selectors import parse_selector
from trellis.kube.client import Client
from trellis.kube.discovery import Served
from trellis.kube.resources import Resource
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.informer import Informer
from trellis.providers.cluster_api.objects import (
    VERSIONS,
    ClusterApiObjects,
    GroupScope,
    Resources,
    ScalableKind,
    TemplateKey,
    build_resources,
)
from trellis.providers.cluster_api.provider import ClusterApiProvider
from trellis.providers.cluster_api.settings import ClusterApiSettings
from trellis.providers.plugins import ProviderContext, RunningProvider
from trellis.runtime.cluster_connection import connect, retry_until_success
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.settings.component import AccessSettings
from trellis.runtime.tasks import cancel_all
from trellis.runtime.telemetry.logs import Logger

TEMPLATE_UNREADABLE = Reason(
    "MachineTemplateUnreadable", "The infrastructure template of a group of Machines cannot be read.", Severity.WARNING
)

# How often a management cluster without Cluster API is asked again.
_ABSENT_SECONDS: Final = 30.0
# How long the status of an infrastructure template is kept, with a capacity and without one.
_TEMPLATE_SECONDS: Final = 300.0
_INCOMPLETE_TEMPLATE_SECONDS: Final = 30.0
_TEMPLATE_TIMEOUT: Final = 5.0
# How long a call waits until all objects have been listed, before it says which have not.
_SYNC_SECONDS: Final = 10.0
_NOT_LISTED: Final = "the objects of Cluster API have not been listed yet"

_log: Final = Logger("trellis.nodes")


class ClusterApiUnavailable(Exception):
    """The objects of Cluster API are not known now."""


@asynccontextmanager
async def open_cluster_api(context: ProviderContext) -> AsyncIterator[RunningProvider]:
    """The provider, with a client of its own where the management cluster is another one."""
    settings = context.section(ClusterApiSettings)
    async with AsyncExitStack() as stack:
        client, writer = context.client, context.writer
        if settings.cluster_api_kubeconfig or settings.cluster_api_context:
            access = AccessSettings(kubeconfig=settings.cluster_api_kubeconfig, context=settings.cluster_api_context)
            client = await stack.enter_async_context(connect(access, context.client.field_manager, _log))
            writer = context.writer.for_cluster(client)
        cluster = ManagementCluster(client, settings, context)
        following = asyncio.create_task(cluster.run(), name="Cluster API")
        following.add_done_callback(_log_end)
        stack.push_async_callback(cancel_all, [following])
        scope = GroupScope(
            settings.cluster_api_group,
            settings.cluster_api_cluster_name,
            parse_selector(settings.cluster_api_selector),
        )
        templates = TemplateReader(client, lambda: cluster.served)
        provider = ClusterApiProvider(cluster.read, templates.read, scope, lambda: cluster.resources)
        yield RunningProvider(provider, writer)


class _Followed(NamedTuple):
    clusters: Informer[MachineCluster]
    deployments: Informer[ScalableMachines]
    sets: Informer[ScalableMachines]
    machines: Informer[ClusterApiMachine]
    # Older installations may not serve it.
    pools: Informer[ScalableMachines] | None


class ManagementCluster:
    """The cluster in which Cluster API runs, and what it serves. `run` follows it until cancelled."""

    def __init__(self, client: Client, settings: ClusterApiSettings, context: ProviderContext) -> None:
        self._client = client
        self._settings = settings
        self._context = context
        self.resources = build_resources(settings.cluster_api_group)
        self.served = Served()
        self._informers: Informers | None = None
        self._followed: _Followed | None = None
        # Set once it is known whether the cluster has Cluster API.
        self._answered = asyncio.Event()
        self._problem = "the management cluster has not answered yet"

    async def run(self) -> None:
        """Find the version of Cluster API and follow its objects."""
        try:
            while True:
                self.served = await retry_until_success(self._client.discover, _log)
                version = self._find_version()
                if version is not None:
                    break
                self._problem = f"the management cluster does not serve Machines of {self._settings.cluster_api_group}"
                self._answered.set()
                _log.warning("Cluster API was not found", why=self._problem, again_in=_ABSENT_SECONDS)
                await asyncio.sleep(_ABSENT_SECONDS)
            self.resources = build_resources(self._settings.cluster_api_group, version)
            informers = Informers(
                self._client,
                UnreadableKinds(self._context.metrics, _log),
                draw=random.random,
                namespaces=self._settings.cluster_api_namespaces,
            )
            self._followed = self._follow(informers, self.resources)
            self._informers = informers
            self._answered.set()
            await informers.run()
        finally:
            self._informers = None
            self._problem = "the management cluster is not followed any more"
            self._answered.set()

    async def read(self) -> ClusterApiObjects:
        """The objects as they are now. Waits until they are known, and raises if they are no longer current."""
        await self._answered.wait()
        informers, followed = self._informers, self._followed
        if informers is None or followed is None:
            raise ClusterApiUnavailable(self._problem)
        try:
            async with asyncio.timeout(_SYNC_SECONDS):
                await informers.wait_until_synced()
        except TimeoutError as error:
            raise ClusterApiUnavailable(informers.find_staleness_problem() or _NOT_LISTED) from error
        problem = informers.find_staleness_problem()
        if problem is not None:
            raise ClusterApiUnavailable(problem)
        return ClusterApiObjects(
            _list(followed.clusters),
            _list(followed.deployments),
            _list(followed.sets),
            _list(followed.pools) if followed.pools is not None else (),
            _list(followed.machines),
            self._context.list_nodes(),
        )

    def _find_version(self) -> str | None:
        group = self._settings.cluster_api_group
        served = (build_resources(group, version).machines for version in VERSIONS)
        return next((resource.version for resource in served if self.served.serves(resource)), None)

    def _follow(self, informers: Informers, resources: Resources) -> _Followed:
        pools = resources.scalable(ScalableKind.POOL)
        followed = _Followed(
            informers.follow(resources.clusters),
            informers.follow(resources.deployments),
            informers.follow(resources.sets),
            informers.follow(resources.machines),
            informers.follow(pools) if self.served.serves(pools) else None,
        )
        for informer in followed:
            if informer is not None:
                informer.subscribe(self._report_change)
        return followed

    def _report_change(self, change: ObjectChange[Any]) -> None:
        """Trigger a pass, unless nothing has changed that is read here: conditions change all the time."""
        old, new = change.old, change.new
        if old is None or new is None or _without_version(old) != _without_version(new):
            self._context.on_change()


class TemplateReader:
    """Reads infrastructure templates, of any kind, and keeps them for a while."""

    def __init__(self, client: Client, served: Callable[[], Served]) -> None:
        self._client = client
        self._served = served
        self._kept: dict[TemplateKey, tuple[float, InfrastructureTemplate | DetailedReason]] = {}

    async def read(self, key: TemplateKey, now: float) -> InfrastructureTemplate | DetailedReason:
        """The template, or why it cannot be read."""
        kept = self._kept.get(key)
        if kept is not None and now < kept[0]:
            return kept[1]
        found = await self._read(key)
        is_complete = isinstance(found, InfrastructureTemplate) and bool(found.status.capacity)
        self._kept[key] = now + (_TEMPLATE_SECONDS if is_complete else _INCOMPLETE_TEMPLATE_SECONDS), found
        return found

    async def _read(self, key: TemplateKey) -> InfrastructureTemplate | DetailedReason:
        served = self._served().find(key.group, key.kind)
        if served is None:
            return DetailedReason(TEMPLATE_UNREADABLE, f"{key.kind}.{key.group} is not served")
        resource = Resource(served.group, served.version, served.plural, served.kind, True, InfrastructureTemplate)
        try:
            async with asyncio.timeout(_TEMPLATE_TIMEOUT):
                return await self._client.get(resource, key.name, key.namespace)
        except TimeoutError:
            return DetailedReason(TEMPLATE_UNREADABLE, f"{key} was not answered in {_TEMPLATE_TIMEOUT:g} s")
        except (KubeError, UnreadableObject) as error:
            return DetailedReason(TEMPLATE_UNREADABLE, f"{key}: {error}")


def _log_end(following: asyncio.Task[None]) -> None:
    """An error that ends it leaves the groups as they were last seen, so that it must be seen itself."""
    if not following.cancelled() and (error := following.exception()) is not None:
        _log.error("Cluster API is not followed any more", error=error)


def _list(informer: Informer[Any]) -> tuple[Any, ...]:
    return tuple(informer.snapshot())


def _without_version(written: Any) -> Any:
    """An object without its version, which changes with every field that is not read."""
    metadata = msgspec.structs.replace(written.metadata, resource_version="")
    return msgspec.structs.replace(written, metadata=metadata)
