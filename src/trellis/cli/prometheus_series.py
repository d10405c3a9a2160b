"""Reads usage from Prometheus for a command, with settings from flags, environment and a file, and progress.

The labels default to those that cAdvisor's series have in most clusters, as for `trellis recommend`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trellis.base.errors import InvalidSeries, PrometheusError
from trellis.cli.progress import show_progress
from trellis.core.cluster.dump_format import ContainerHistory, MissingData
from trellis.runtime.settings.loader import WrittenValue, from_environment, from_file, load_settings
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.settings import PrometheusSettings
from trellis.sources.series.prometheus import read_prometheus
from trellis.sources.series.tables import LoadedSeries
from trellis.sources.survey.settings import USUAL_LABELS

_PART = "asking Prometheus"


class PrometheusOptions(msgspec.Struct, frozen=True):
    """What a command line says about Prometheus: where it is, how far back, how finely, and a file with the rest."""

    url: str
    history: str
    resolution: str
    config: Path | None = None

    def settings(self) -> PrometheusSettings:
        """Flags win over the environment, and that over the file."""
        flags = {
            "prometheus-address": WrittenValue(self.url, "flag --prometheus-url"),
            "history-length": WrittenValue(self.history, "flag --history"),
            "history-resolution": WrittenValue(self.resolution, "flag --resolution"),
        }
        sources = [flags, from_environment(PrometheusSettings, os.environ)]
        sources += [from_file(PrometheusSettings, self.config)] if self.config is not None else []
        usual = {name: WrittenValue(value, "the usual label") for name, value in USUAL_LABELS.items()}
        return load_settings(PrometheusSettings, *sources, usual).settings


def series_from_prometheus(asked: PrometheusOptions, namespaces: Sequence[str], *, quiet: bool) -> LoadedSeries:
    """What was used until now, in the namespaces that a pattern matches; without patterns in all."""
    settings = asked.settings()

    async def read() -> LoadedSeries:
        async with PrometheusClient(settings, hasty=True) as client:
            with show_progress([_PART], lambda steps: f"{steps:,.0f} steps/s", quiet=quiet) as tell:
                return await read_prometheus(
                    client, settings, namespaces, time.time(), lambda each: tell(_PART, each.done, each.total)
                )

    return asyncio.run(read())


def history_from_prometheus(
    asked: PrometheusOptions, namespaces: Sequence[str], *, quiet: bool
) -> tuple[list[ContainerHistory], list[MissingData]]:
    """The same as a dump has it. If there is nothing, that is what is missing: the rest is still worth having."""
    try:
        found = series_from_prometheus(asked, namespaces, quiet=quiet)
    except (PrometheusError, InvalidSeries) as error:
        return [], [MissingData("history", "", f"could not be read: {error}")]
    history = []
    for each in found.series:
        namespace, pod, container = each.name.split("/")
        history.append(ContainerHistory(namespace, pod, container, each.times, each.cpu, each.memory))
    return history, []
