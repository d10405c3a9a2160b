"""Composes the server of node providers: its spec as a component, and the controller from its parts.

Calls are answered once the caches are synced. What instances need while they start is written by a loop, as by the
node autoscaler.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import Final

from trellis.api.kube.nodes import Node
from trellis.base.errors import InvalidInput
from trellis.controllers.buffer_provisioning.snapshot_changes import PassTrigger
from trellis.controllers.nodes.executor import PendingNodeWrites
from trellis.controllers.nodes.provider_client import ProviderClient
from trellis.controllers.nodes.provider_server.group_states import GroupStates
from trellis.controllers.nodes.provider_server.metrics import GROUPS, PROVIDER_SERVER_METRICS
from trellis.controllers.nodes.provider_server.service import GroupService
from trellis.controllers.nodes.provider_server.settings import NodeProviderServerSettings
from trellis.kube.resources import NODES
from trellis.kube.watch.informer import Informer
from trellis.providers.external_grpc.rpcs import CallFailed
from trellis.providers.plugins import ChangeSignal, OpenProviders, ProviderContext, open_providers
from trellis.runtime import passes
from trellis.runtime.component import ComponentSpec, Controller, ControllerContext, component_main
from trellis.runtime.passes import Periodic
from trellis.runtime.shutdown import Main
from trellis.runtime.tasks import run_all
from trellis.runtime.telemetry import cluster_metrics
from trellis.runtime.telemetry.logs import Logger

COMPONENT: Final = "node-provider-server"
NAME: Final = f"trellis-{COMPONENT}"

# How often starting instances are checked; changes of nodes do not wait for it.
_TEND_SECONDS: Final = 10.0

_log: Final = Logger("trellis.node-provider-server")


class ProviderServer(Controller):
    """The server of a process. `on_listening` gets the address of the gRPC server."""

    def __init__(
        self,
        context: ControllerContext,
        settings: NodeProviderServerSettings,
        nodes: Informer[Node],
        provider_client: ProviderClient,
        *,
        on_listening: Callable[[str], None],
    ) -> None:
        self._context = context
        self._settings = settings
        self._provider_client = provider_client
        self._nodes = nodes
        self._on_listening = on_listening
        self._pending_writes = PendingNodeWrites(nodes)
        self.states = GroupStates(
            provider_client, lambda: list_nodes(nodes), context.now, context.informers.find_staleness_problem
        )
        self._service = GroupService(
            self.states,
            provider_client,
            observe_writes=self._pending_writes.wait_for,
            now=context.now,
            find_change_problem=self._find_change_problem,
        )
        self._loop = Periodic(
            "tend",
            self._tend,
            _TEND_SECONDS,
            on_pass=passes.pass_reporter(
                context.activity, _log, cluster_metrics.PassGauges(context.metrics, context.component)
            ),
            jitter=0.0,
        )
        self._trigger = PassTrigger(self._loop, context.now)

    def on_started_leading(self) -> None:
        """Every replica serves, so there is nothing to forget."""

    def on_provider_change(self) -> None:
        """Groups or instances have changed."""
        self.states.forget()
        if self._context.informers.synced:
            self._trigger.soon()

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            await self._context.informers.wait_until_synced()
            self._nodes.subscribe(lambda _change: self.on_provider_change())
            self._pending_writes.subscribe()
            await run_all(self._serve(), self._loop.run())
        finally:
            await self._provider_client.close()

    async def _serve(self) -> None:
        from trellis.controllers.nodes.provider_server.grpc_server import serve_groups  # noqa: PLC0415 - an extra

        server = self._settings.server
        async with serve_groups(
            server, self._service.methods, self._context.metrics, self._find_health_problem
        ) as address:
            _log.info("serving node groups", address=address, tls=server.uses_tls)
            self._on_listening(str(address))
            await run_all()

    async def _tend(self) -> None:
        # Health and metrics are those of now, whether a client calls or not.
        with suppress(CallFailed):
            await self.states.read()
        self._context.metrics.set(GROUPS, self.states.count)
        if self._context.informers.find_staleness_problem() is not None or not self._context.may_act():
            return
        next_at, _ = await self._provider_client.tend(self._context.now())
        self._trigger.at([next_at])
        self._context.complete_pass()

    def _find_health_problem(self) -> str | None:
        return self._context.informers.find_staleness_problem() or self.states.problem

    def _find_change_problem(self) -> str | None:
        if self._settings.access.read_only:
            return "the server is read-only"
        return None if self._context.may_act() else "this replica does not work"


@asynccontextmanager
async def open_provider_server(
    context: ControllerContext,
    settings: NodeProviderServerSettings,
    *,
    open_all: OpenProviders = open_providers,
    on_listening: Callable[[str], None] = lambda _address: None,
) -> AsyncIterator[ProviderServer]:
    """The server with the providers of its settings. They end after it."""
    nodes = context.informers.follow(NODES)
    changes = ChangeSignal()
    provider_context = ProviderContext(
        client=context.client,
        served=context.served,
        informers=context.informers,
        list_nodes=lambda: list_nodes(nodes),
        writer=context.writer,
        metrics=context.metrics,
        now=context.now,
        sections=settings.provider_sections,
        read_only=settings.access.read_only,
        may_act=context.may_act,
        on_change=changes.send,
    )
    async with open_all(settings.provider.cloud_provider, provider_context, settings.provider.options()) as providers:
        patience = settings.provider.provider_timeout.total_seconds()
        provider_client = ProviderClient(providers, patience, context.metrics)
        server = ProviderServer(context, settings, nodes, provider_client, on_listening=on_listening)
        changes.subscribe(server.on_provider_change)
        yield server


def list_nodes(nodes: Informer[Node]) -> Collection[Node]:
    """All nodes as they are now."""
    return nodes.snapshot().objects.values()


def require_grpc() -> None:
    """Refuse to start without the extra."""
    try:
        import grpc  # noqa: F401, PLC0415 - an optional extra
    except ImportError as error:
        rule = "needs gRPC: pip install 'trellis-autoscaler[grpc]'"
        raise InvalidInput(f"trellis {COMPONENT}", rule) from error


def provider_server_main(
    settings: NodeProviderServerSettings, on_listening: Callable[[str], None] = lambda _address: None
) -> Main:
    """The main function of a process with these settings."""
    require_grpc()
    spec = ComponentSpec(
        component=COMPONENT,
        name=NAME,
        field_manager=NAME,
        log=_log,
        metrics=PROVIDER_SERVER_METRICS,
        build=lambda context: open_provider_server(context, settings, on_listening=on_listening),
        interval=_TEND_SECONDS,
    )
    return component_main(spec, settings)
