"""`trellis recommend` in a cluster: its Prometheus is found, and the report names it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner

from support.builders.dumps import shop
from support.prometheus.service import PLACE, add_prometheus
from trellis.cli import survey
from trellis.cli.main import trellis
from trellis.kube.client import Client


def test_without_options_the_report_names_the_prometheus_that_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    server = add_prometheus(shop())

    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[tuple[Client, str]]:
        yield server.client, "shop"

    monkeypatch.setattr(survey, "open_chosen_client", connected)
    result = CliRunner().invoke(trellis, ["recommend", "--quiet"])
    assert result.exit_code == 0, result.output
    assert "shop/web app" in result.stdout
    assert f"recommender default, from {PLACE}," in " ".join(result.stdout.split())
