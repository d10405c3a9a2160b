"""`trellis node-provider-server`: offers node providers by Cluster Autoscaler's external gRPC protocol."""

from __future__ import annotations

from trellis.cli.component import component_command
from trellis.controllers.nodes.provider_server.process import provider_server_main
from trellis.controllers.nodes.provider_server.settings import NodeProviderServerSettings

command = component_command(
    "node-provider-server",
    "Offer node groups to Cluster Autoscaler by gRPC.",
    NodeProviderServerSettings,
    log_settings=lambda settings: settings.logs,
    start=provider_server_main,
    has_file=False,
)
