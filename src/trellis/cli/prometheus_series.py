"""How does a command take usage from Prometheus? Settings from flags, environment and a file, and progress.

The labels are those that cAdvisor's series have in most clusters, as for `trellis recommend`: who has others says so.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trellis.base.errors import InvalidSeries, PrometheusError
from trellis.cli.progress import shown
from trellis.core.model.dump_lines import History, Missing
from trellis.runtime.setting_loading import load
from trellis.runtime.setting_sources import Written, from_environment, from_file
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.settings import PrometheusSettings
from trellis.sources.series.prometheus import read_prometheus
from trellis.sources.series.tables import Found
from trellis.sources.survey.figures import USUAL_LABELS

_PART = "asking Prometheus"


class AskedPrometheus(msgspec.Struct, frozen=True):
    """What a command line says about Prometheus: where it is, how far back, how finely, and a file with the rest."""

    url: str
    history: str
    resolution: str
    config: Path | None = None

    def settings(self) -> PrometheusSettings:
        """Flags win over the environment, and that over the file."""
        flags = {
            "prometheus-address": Written(self.url, "flag --prometheus-url"),
            "history-length": Written(self.history, "flag --history"),
            "history-resolution": Written(self.resolution, "flag --resolution"),
        }
        sources = [flags, from_environment(PrometheusSettings, os.environ)]
        sources += [from_file(PrometheusSettings, self.config)] if self.config is not None else []
        usual = {name: Written(value, "the usual label") for name, value in USUAL_LABELS.items()}
        return load(PrometheusSettings, *sources, usual).settings


def series_from_prometheus(asked: AskedPrometheus, namespaces: Sequence[str], *, quiet: bool) -> Found:
    """What was used until now, in the namespaces that a pattern matches; without patterns in all."""
    settings = asked.settings()

    async def read() -> Found:
        async with PrometheusClient(settings, hasty=True) as client:
            with shown([_PART], lambda steps: f"{steps:,.0f} steps/s", quiet=quiet) as tell:
                return await read_prometheus(
                    client, settings, namespaces, time.time(), lambda each: tell(_PART, each.done, each.total)
                )

    return asyncio.run(read())


def history_from_prometheus(
    asked: AskedPrometheus, namespaces: Sequence[str], *, quiet: bool
) -> tuple[list[History], list[Missing]]:
    """The same as a dump has it. If there is nothing, that is what is missing: the rest is still worth having."""
    try:
        found = series_from_prometheus(asked, namespaces, quiet=quiet)
    except (PrometheusError, InvalidSeries) as error:
        return [], [Missing("history", "", f"could not be read: {error}")]
    history = []
    for each in found.series:
        namespace, pod, container = each.name.split("/")
        history.append(History(namespace, pod, container, each.times, each.cpu, each.memory))
    return history, []
