"""Surveys workloads for `trellis recommend`: chooses the recommender and the source, and follows progress and Ctrl-C.

Imports NumPy and aiohttp; `recommend` imports this module only when it runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name
from trellis.cli.interrupts import asked_to_stop
from trellis.cli.options import connected, read_machine
from trellis.cli.progress import show_progress
from trellis.cli.prometheus_series import PrometheusOptions
from trellis.controllers.recommender.plugins.entry_points import installed_plugins
from trellis.core.advice.survey.estimates import estimate_from_vpas
from trellis.core.advice.survey.model import SurveyResult
from trellis.core.advice.survey.scope import SurveyObjects, WorkloadFilter
from trellis.core.advice.survey.usage import SurveySettings
from trellis.core.advice.survey.workloads import find_workloads
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.registry import apply_preset, built_in_recommenders, read_presets
from trellis.sim.backtest.request import SHORT_NAMES, load_recommender
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.settings import PrometheusSettings
from trellis.sources.series.files import find_parts
from trellis.sources.survey.cluster import list_cluster_workloads
from trellis.sources.survey.files import survey_files
from trellis.sources.survey.prometheus_discovery import find_prometheus
from trellis.sources.survey.resume_file import ResumeFile, resume_key
from trellis.sources.survey.settings import survey_settings
from trellis.sources.survey.survey import PrometheusSurvey, PrometheusSurveyProgress


class ConfiguredRecommender(msgspec.Struct, frozen=True):
    """A recommender with its parameters set, and those that were set, as they were written."""

    recommender: Recommender
    parameters: dict[str, str]


def configure_recommender(name: str, sets: Sequence[str]) -> ConfiguredRecommender:
    """The recommender of a name, of Trellis or of one package beside it; raises `InvalidInput`."""
    installed = {each: plugins[0].value for each, plugins in installed_plugins().items() if len(plugins) == 1}
    choices = {**dict.fromkeys(built_in_recommenders(), ""), **installed}
    if name not in choices:
        guess = suggest_name(name, choices)
        hint = f' (did you mean "{guess}"?)' if guess else ""
        raise InvalidInput(name, f"there is no such recommender{hint}; there are {', '.join(choices)}")
    recommender = load_recommender(name, choices[name])
    given = _in_full(recommender, read_presets(sets, [name]).get(name, {}))
    return ConfiguredRecommender(apply_preset(recommender, given), given)


def _in_full(recommender: Recommender, given: dict[str, str]) -> dict[str, str]:
    """The same with short names as all that they are short for."""
    declared = {parameter.name for parameter in recommender.parameters}
    found: dict[str, str] = {}
    for name, value in given.items():
        meant = [each for each in SHORT_NAMES.get(name, ()) if each in declared]
        found |= dict.fromkeys([name] if name in declared or not meant else meant, value)
    return found


_PART = "reading usage"
_FIELD_MANAGER = "trellis-recommend"


class SurveyOptions(msgspec.Struct, frozen=True):
    """The options of a survey, by their names."""

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
    def choice(self) -> WorkloadFilter:
        """The filter for workloads; raises `InvalidInput`."""
        labels = [each.strip() for each in self.job_labels.split(",") if each.strip()]
        return WorkloadFilter.of(self.namespaces, self.selector, self.kinds, labels)

    def settings(self) -> PrometheusSettings:
        """Settings of Prometheus; flags win over the environment, and that over a file."""
        headers = list(self.prometheus_headers)
        headers += [f"X-Scope-OrgID={self.prometheus_tenant}"] if self.prometheus_tenant else []
        options = PrometheusOptions(
            self.prometheus_url, self.history, self.resolution, self.prometheus_config, tuple(headers)
        )
        return survey_settings(*options.sources())


class SurveyOutcome(msgspec.Struct, frozen=True):
    """The result of a survey, the parameters of its recommender, and whether it was stopped."""

    surveyed: SurveyResult
    parameters: dict[str, str] = {}
    is_stopped: bool = False


def surveyed(traces: Sequence[str], **how: Any) -> SurveyOutcome:
    """Survey the workloads that the options select; raises errors of ours."""
    wanted = SurveyOptions(**how)
    _check(traces, wanted)
    chosen = configure_recommender(wanted.recommender, wanted.sets)
    asked = SurveySettings(chosen.recommender, totals=wanted.suggest_buckets)
    if traces:
        machine = read_machine(wanted.machine)
        found = SurveyOutcome(survey_files(find_parts(traces), ", ".join(traces), wanted.choice, asked, machine))
    else:
        found = asyncio.run(_surveyed(wanted, asked, time.time()))
    return msgspec.structs.replace(found, parameters=chosen.parameters)


def _check(traces: Sequence[str], wanted: SurveyOptions) -> None:
    if wanted.vpas and (traces or wanted.no_cluster or wanted.prometheus_url):
        raise click.UsageError("--vpas takes everything from the cluster: neither files nor Prometheus are asked")
    if wanted.suggest_buckets and (traces or wanted.vpas):
        raise click.UsageError("--suggest-buckets needs to know how many pods there were, which only Prometheus tells")
    if traces and (wanted.prometheus_url or wanted.no_cluster or wanted.resume):
        raise click.UsageError("give files with usage, or ask Prometheus, but not both")
    if wanted.no_cluster and not wanted.prometheus_url:
        raise click.UsageError("--no-cluster needs --prometheus-url: nobody else says where Prometheus is")


async def _surveyed(wanted: SurveyOptions, asked: SurveySettings, now: float) -> SurveyOutcome:
    choice, settings = wanted.choice, wanted.settings()
    if wanted.no_cluster:
        async with PrometheusClient(settings, hasty=True) as prometheus:
            return await _from_prometheus(wanted, prometheus, settings, asked=asked, now=now)
    async with connected(wanted.kubeconfig, wanted.context, _FIELD_MANAGER) as (client, home):
        present = await list_cluster_workloads(client, choice, home, nodes=wanted.suggest_buckets)
        if wanted.vpas:
            return SurveyOutcome(_from_vpas(present, choice, now))
        if wanted.prometheus_url:
            async with PrometheusClient(settings, hasty=True) as prometheus:
                return await _from_prometheus(wanted, prometheus, settings, asked=asked, now=now, present=present)
        async with find_prometheus(client, settings, now) as (prometheus, place):
            found = await _from_prometheus(wanted, prometheus, settings, asked=asked, now=now, present=present)
            surveyed = msgspec.structs.replace(found.surveyed, source=str(place))
            return msgspec.structs.replace(found, surveyed=surveyed)


def _from_vpas(present: SurveyObjects, choice: WorkloadFilter, now: float) -> SurveyResult:
    found = find_workloads(present, choice)
    return SurveyResult(
        time=now,
        source="the cluster's VerticalPodAutoscalers",
        recommender="as each of them names",
        workloads=estimate_from_vpas(found.workloads.values(), present.vpas),
        missing=present.missing,
    )


async def _from_prometheus(
    wanted: SurveyOptions,
    prometheus: PrometheusClient,
    settings: PrometheusSettings,
    *,
    asked: SurveySettings,
    now: float,
    present: SurveyObjects | None = None,
) -> SurveyOutcome:
    keeping = ResumeFile(now, wanted.resume, resume_key(settings, asked) if wanted.resume else None)
    with _follow_progress(quiet=wanted.quiet) as (tell, stop):
        survey = PrometheusSurvey(prometheus, settings, wanted.choice, asked, keeping=keeping, tell=tell, stop=stop)
        surveyed = await survey.take(present)
        return SurveyOutcome(surveyed, is_stopped=stop())


@contextmanager
def _follow_progress(*, quiet: bool) -> Iterator[Any]:
    """A function that reports progress, and one that says whether the survey is to stop."""
    with (
        asked_to_stop(
            "stopping after this namespace, or at once by another Ctrl-C; what there is so far follows"
        ) as is_asked,
        show_progress([_PART], lambda rate: f"{rate:,.1f} namespaces/s", quiet=quiet) as tell,
    ):

        def report(progress: PrometheusSurveyProgress) -> None:
            tell(_PART, progress.done, max(progress.total, 1))

        yield report, is_asked
