"""What a provider works with, without informers: for providers that follow nothing."""

from __future__ import annotations

from typing import Any, cast

from support.api_server.server import ModelServer
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.kube.write.writer import Writer
from trellis.providers.plugins import ProviderContext
from trellis.runtime.settings.declarations import Settings
from trellis.runtime.telemetry.metrics import Metrics


def build_context(*sections: Settings) -> ProviderContext:
    client = ModelServer().client
    return ProviderContext(
        client=client,
        served=cast("Any", None),
        informers=cast("Any", None),
        list_nodes=list,
        writer=Writer(client, record=lambda _outcome: None),
        metrics=Metrics(NODE_METRICS, about_process=False),
        now=lambda: 0.0,
        sections=sections,
    )
