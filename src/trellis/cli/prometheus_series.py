"""Reads usage from Prometheus for a command, with settings from flags, environment and a file, and progress.

The labels default to those that cAdvisor's series have in most clusters, as for `trellis recommend`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from trellis.base.errors import InvalidSeries, PrometheusError
from trellis.cli.progress import show_progress
from trellis.core.cluster.dump_format import ContainerHistory, MissingData
from trellis.runtime.settings.loader import WrittenValue, from_environment, from_file, load_settings
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.history import HistoryProgress
from trellis.sources.prometheus.settings import PrometheusSettings
from trellis.sources.series.prometheus import read_prometheus
from trellis.sources.series.tables import LoadedSeries
from trellis.sources.survey.settings import USUAL_LABELS

_PART = "asking Prometheus"


class PrometheusOptions(msgspec.Struct, frozen=True):
    """Options about Prometheus: address, history, resolution, a file of further settings, and headers."""

    url: str | None
    history: str
    resolution: str
    config: Path | None = None
    headers: tuple[str, ...] = ()

    def list_sources(self) -> list[Mapping[str, WrittenValue]]:
        """Flags, environment and file, of which the first that has a setting wins."""
        flags: dict[str, WrittenValue] = {
            "history-length": WrittenValue(self.history, "flag --history"),
            "history-resolution": WrittenValue(self.resolution, "flag --resolution"),
        }
        if self.url:
            flags["prometheus-address"] = WrittenValue(self.url, "flag --prometheus-url")
        if self.headers:
            flags["prometheus-headers"] = WrittenValue(list(self.headers), "flag --prometheus-header")
        file = [from_file(PrometheusSettings, self.config)] if self.config is not None else []
        return [flags, from_environment(PrometheusSettings, os.environ), *file]

    def load_settings(self) -> PrometheusSettings:
        """Settings with the usual labels as defaults."""
        usual = {name: WrittenValue(value, "the usual label") for name, value in USUAL_LABELS.items()}
        return load_settings(PrometheusSettings, *self.list_sources(), usual).settings


def read_prometheus_series(options: PrometheusOptions, namespaces: Sequence[str], *, quiet: bool) -> LoadedSeries:
    """Usage until now, in the namespaces that a pattern matches; without patterns in all."""
    settings = options.load_settings()

    async def read() -> LoadedSeries:
        async with PrometheusClient(settings, fail_fast=True) as client:
            with show_progress([_PART], lambda steps: f"{steps:,.0f} steps/s", quiet=quiet) as tell:

                def report(progress: HistoryProgress) -> None:
                    tell(_PART, progress.done, progress.total)

                return await read_prometheus(client, settings, namespaces, time.time(), report)

    return asyncio.run(read())


def read_prometheus_history(
    options: PrometheusOptions, namespaces: Sequence[str], *, quiet: bool
) -> tuple[list[ContainerHistory], list[MissingData]]:
    """The series in the form of a dump; an error becomes missing data, because the rest is still worth having."""
    try:
        loaded = read_prometheus_series(options, namespaces, quiet=quiet)
    except (PrometheusError, InvalidSeries) as error:
        return [], [MissingData("history", "", f"could not be read: {error}")]
    history = []
    for series in loaded.series:
        at = series.identity
        history.append(ContainerHistory(at.namespace, at.pod, at.container, series.times, series.cpu, series.memory))
    return history, []
