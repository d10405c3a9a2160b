"""The plug-in of the provider externalgrpc: connects to the server of its configuration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from trellis.base.errors import InvalidInput
from trellis.providers.external_grpc.configuration import load_configuration
from trellis.providers.external_grpc.provider import ExternalGrpcProvider
from trellis.providers.external_grpc.settings import ExternalGrpcSettings
from trellis.providers.plugins import ProviderContext, RunningProvider
from trellis.runtime.telemetry.logs import Logger

_log: Final = Logger("trellis.nodes")


@asynccontextmanager
async def open_external_grpc(context: ProviderContext) -> AsyncIterator[RunningProvider]:
    """A provider with a connection, which ends with the context."""
    configuration = load_configuration(context.section(ExternalGrpcSettings).external_grpc_config)
    try:
        from trellis.providers.external_grpc.channel import ServerChannel  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        rule = "--cloud-provider=externalgrpc needs gRPC: pip install 'trellis-autoscaler[grpc]'"
        raise InvalidInput("externalgrpc", rule) from error
    if not configuration.uses_tls and configuration.leaves_host:
        _log.warning(
            "the connection to the server of node groups is not encrypted, and any process at that address may "
            "answer: set cert, key and cacert",
            address=configuration.address,
        )

    def find_send_problem() -> str | None:
        if context.read_only:
            return "the process is read-only"
        return None if context.may_act() else "the process does not lead"

    channel = ServerChannel(configuration)
    try:
        provider = ExternalGrpcProvider(
            channel, context.list_nodes, defaults=context.defaults, find_send_problem=find_send_problem
        )
        yield RunningProvider(provider, context.writer)
    finally:
        await channel.close()
