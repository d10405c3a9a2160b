"""The provider as a plug-in."""

from __future__ import annotations

import asyncio
import logging
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

import pytest

from support.api_server.server import ModelServer
from support.worlds.providers.external_grpc import MachineServer, serve
from trellis.base.errors import InvalidConfiguration, InvalidInput
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.kube.write.writer import Writer
from trellis.providers.external_grpc.plugin import open_external_grpc
from trellis.providers.external_grpc.settings import ExternalGrpcSettings
from trellis.providers.plugins import ENTRY_POINTS, ProviderContext
from trellis.runtime.telemetry.metrics import Metrics


def build_context(config: Path | str, **fields: Any) -> ProviderContext:
    client = ModelServer().client
    return ProviderContext(
        client=client,
        served=cast("Any", None),
        informers=cast("Any", None),
        list_nodes=list,
        writer=Writer(client, record=lambda _outcome: None),
        metrics=Metrics(NODE_METRICS, about_process=False),
        now=lambda: 0.0,
        sections=(ExternalGrpcSettings(external_grpc_config=str(config)),),
        **fields,
    )


def write_config(directory: Path, text: str) -> Path:
    file = directory / "config.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("fields", "why"),
    [({}, ""), ({"read_only": True}, "read-only"), ({"may_act": lambda: False}, "does not lead")],
)
def test_it_is_opened_by_its_file_and_sends_changes_while_it_leads(
    tmp_path: Path, fields: dict[str, Any], why: str
) -> None:
    async def story() -> None:
        server = MachineServer()
        async with serve(server.answer) as port:
            config = write_config(tmp_path, f"address: localhost:{port}\n")
            async with open_external_grpc(build_context(config, **fields)) as running:
                assert running.provider.name == "externalgrpc"
                ordered = await running.provider.order("pool", 2, 0.0)
                assert bool(ordered.error) is bool(why)
                assert why in str(ordered.error or "")
            assert server.groups["pool"].wanted == (0 if why else 2)

    asyncio.run(story())


def test_it_needs_a_file() -> None:
    async def story() -> None:
        with pytest.raises(InvalidConfiguration, match="--external-grpc-config"):
            async with open_external_grpc(build_context("")):
                pass

    asyncio.run(story())


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "trellis.providers.external_grpc.channel", raising=False)
    for name in [name for name in sys.modules if name == "grpc" or name.startswith("grpc.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)

    async def story() -> None:
        config = write_config(tmp_path, "address: localhost:1\n")
        with pytest.raises(InvalidInput, match=r"needs gRPC: pip install 'trellis-autoscaler\[grpc\]'"):
            async with open_external_grpc(build_context(config)):
                pass

    asyncio.run(story())


@pytest.mark.parametrize(("address", "warns"), [("machines.example.com:1", True), ("localhost:1", False)])
def test_plaintext_over_a_network_is_warned_of(
    tmp_path: Path, address: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with open_external_grpc(build_context(write_config(tmp_path, f"address: {address}\n"))):
            pass

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert ("is not encrypted" in caplog.text) is warns


def test_it_is_announced_and_gets_the_settings_that_options_replace() -> None:
    assert "externalgrpc" in {entry.name for entry in entry_points(group=ENTRY_POINTS)}
    defaults = NodeControllerSettings().group_defaults
    assert (defaults.scale_down_unneeded_seconds, defaults.max_node_provision_seconds) == (600.0, 900.0)
