"""How a command surveys workloads: from where, with settings from flags, environment and a file, and progress."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from trellis.cli.access import connected
from trellis.cli.chosen_recommender import chosen_recommender
from trellis.cli.interrupts import asked_to_stop
from trellis.cli.machine_option import read_machine
from trellis.cli.progress import shown
from trellis.core.advice.asked import Asked
from trellis.core.advice.choice import Choice
from trellis.core.advice.present import Present
from trellis.core.advice.published import with_published
from trellis.core.advice.surveyed import Surveyed
from trellis.core.advice.workloads import find_workloads
from trellis.runtime.setting_sources import Written, from_environment, from_file
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.settings import PrometheusSettings
from trellis.sources.series.reading import parts_of
from trellis.sources.survey.cluster import cluster_present
from trellis.sources.survey.figures import survey_settings
from trellis.sources.survey.files import survey_files
from trellis.sources.survey.finding import found_prometheus
from trellis.sources.survey.keeping import Keeping, figures_of
from trellis.sources.survey.survey import Survey, SurveyProgress

_PART = "reading usage"
_FIELD_MANAGER = "trellis-recommend"


class Wanted(msgspec.Struct, frozen=True):
    """What a command line says of a survey, by the names of its options."""

    namespaces: tuple[str, ...]
    selector: str
    kinds: tuple[str, ...]
    job_labels: str
    vpas: bool
    no_cluster: bool
    prometheus_url: str | None
    prometheus_headers: tuple[str, ...]
    prometheus_tenant: str | None
    prometheus_config: Path | None
    history: str
    resolution: str
    resume: Path | None
    machine: str
    recommender: str
    sets: tuple[str, ...]
    quiet: bool
    suggest_buckets: bool
    kubeconfig: Path | None
    context: str

    @property
    def choice(self) -> Choice:
        """Which workloads are meant; raises `InvalidInput`."""
        labels = [each.strip() for each in self.job_labels.split(",") if each.strip()]
        return Choice.of(self.namespaces, self.selector, self.kinds, labels)

    def settings(self) -> PrometheusSettings:
        """How Prometheus is asked; flags win over the environment and a file."""
        headers = list(self.prometheus_headers)
        headers += [f"X-Scope-OrgID={self.prometheus_tenant}"] if self.prometheus_tenant else []
        flags: dict[str, Written] = {
            "history-length": Written(self.history, "flag --history"),
            "history-resolution": Written(self.resolution, "flag --resolution"),
        }
        if self.prometheus_url:
            flags["prometheus-address"] = Written(self.prometheus_url, "flag --prometheus-url")
        flags |= {"prometheus-headers": Written(headers, "flag --prometheus-header")} if headers else {}
        sources = [flags, from_environment(PrometheusSettings, os.environ)]
        sources += [from_file(PrometheusSettings, self.prometheus_config)] if self.prometheus_config else []
        return survey_settings(*sources)


class Found(msgspec.Struct, frozen=True):
    """What was found out, what was set of the recommender, and whether somebody stopped it."""

    surveyed: Surveyed
    parameters: dict[str, str] = {}
    is_stopped: bool = False


def surveyed(traces: Sequence[str], **how: Any) -> Found:
    """A survey of what a command line asks about; raises errors of ours."""
    wanted = Wanted(**how)
    _check(traces, wanted)
    chosen = chosen_recommender(wanted.recommender, wanted.sets)
    asked = Asked(chosen.recommender, totals=wanted.suggest_buckets)
    if traces:
        machine = read_machine(wanted.machine)
        found = Found(survey_files(parts_of(traces), ", ".join(traces), wanted.choice, asked, machine))
    else:
        found = asyncio.run(_surveyed(wanted, asked, time.time()))
    return msgspec.structs.replace(found, parameters=chosen.parameters)


def _check(traces: Sequence[str], wanted: Wanted) -> None:
    if wanted.vpas and (traces or wanted.no_cluster or wanted.prometheus_url):
        raise click.UsageError("--vpas takes everything from the cluster: neither files nor Prometheus are asked")
    if wanted.suggest_buckets and (traces or wanted.vpas):
        raise click.UsageError("--suggest-buckets needs to know how many pods there were, which only Prometheus tells")
    if traces and (wanted.prometheus_url or wanted.no_cluster or wanted.resume):
        raise click.UsageError("give files with usage, or ask Prometheus, but not both")
    if wanted.no_cluster and not wanted.prometheus_url:
        raise click.UsageError("--no-cluster needs --prometheus-url: nobody else says where Prometheus is")


async def _surveyed(wanted: Wanted, asked: Asked, now: float) -> Found:
    choice, settings = wanted.choice, wanted.settings()
    if wanted.no_cluster:
        async with PrometheusClient(settings, hasty=True) as prometheus:
            return await _from_prometheus(wanted, prometheus, settings, asked=asked, now=now)
    async with connected(wanted.kubeconfig, wanted.context, _FIELD_MANAGER) as (client, home):
        present = await cluster_present(client, choice, home, nodes=wanted.suggest_buckets)
        if wanted.vpas:
            return Found(_from_vpas(present, choice, now))
        if wanted.prometheus_url:
            async with PrometheusClient(settings, hasty=True) as prometheus:
                return await _from_prometheus(wanted, prometheus, settings, asked=asked, now=now, present=present)
        async with found_prometheus(client, settings, now) as (prometheus, place):
            found = await _from_prometheus(wanted, prometheus, settings, asked=asked, now=now, present=present)
            surveyed = msgspec.structs.replace(found.surveyed, source=str(place))
            return msgspec.structs.replace(found, surveyed=surveyed)


def _from_vpas(present: Present, choice: Choice, now: float) -> Surveyed:
    found = find_workloads(present, choice)
    return Surveyed(
        time=now,
        source="the cluster's VerticalPodAutoscalers",
        recommender="as each of them names",
        workloads=with_published(found.workloads.values(), present.vpas),
        missing=present.missing,
    )


async def _from_prometheus(
    wanted: Wanted,
    prometheus: PrometheusClient,
    settings: PrometheusSettings,
    *,
    asked: Asked,
    now: float,
    present: Present | None = None,
) -> Found:
    keeping = Keeping(now, wanted.resume, figures_of(settings, asked) if wanted.resume else None)
    with _followed(quiet=wanted.quiet) as (tell, stop):
        survey = Survey(prometheus, settings, wanted.choice, asked, keeping=keeping, tell=tell, stop=stop)
        surveyed = await survey.take(present)
        return Found(surveyed, is_stopped=stop())


@contextmanager
def _followed(*, quiet: bool) -> Iterator[Any]:
    """How to tell how far it is, and whether somebody wants it to end."""
    with (
        asked_to_stop(
            "stopping after this namespace, or at once by another Ctrl-C; what there is so far follows"
        ) as is_asked,
        shown([_PART], lambda rate: f"{rate:,.1f} namespaces/s", quiet=quiet) as tell,
    ):

        def report(progress: SurveyProgress) -> None:
            tell(_PART, progress.done, max(progress.total, 1))

        yield report, is_asked
