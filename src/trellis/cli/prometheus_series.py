"""How a command takes series from Prometheus: settings from flags, environment and a file, and progress."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from trellis.cli.progress import shown
from trellis.runtime.setting_loading import load
from trellis.runtime.setting_sources import Written, from_environment, from_file
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.settings import PrometheusSettings
from trellis.sources.series.prometheus import read_prometheus
from trellis.sources.series.tables import Found

_PART = "asking Prometheus"


def series_from_prometheus(
    flags: Mapping[str, Written], config: Path | None, namespaces: Sequence[str], *, quiet: bool
) -> Found:
    """What was used until now; `flags` are settings by their names, and win over the environment and a file."""
    sources = [flags, from_environment(PrometheusSettings, os.environ)]
    if config is not None:
        sources.append(from_file(PrometheusSettings, config))
    settings = load(PrometheusSettings, *sources).settings

    async def read() -> Found:
        async with PrometheusClient(settings) as client:
            with shown([_PART], lambda steps: f"{steps:,.0f} steps/s", quiet=quiet) as tell:
                return await read_prometheus(
                    client, settings, namespaces, time.time(), lambda each: tell(_PART, each.done, each.total)
                )

    return asyncio.run(read())
