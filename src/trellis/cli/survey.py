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
from trellis.cli.input_files import open_inputs
from trellis.cli.interrupts import catch_interrupt
from trellis.cli.options import open_chosen_client, read_machine, refuse_options, refuse_with_files
from trellis.cli.progress import show_progress
from trellis.cli.prometheus_series import PrometheusOptions
from trellis.controllers.recommender.plugins.entry_points import find_plugins
from trellis.core.advice.survey.estimates import estimate_from_vpas
from trellis.core.advice.survey.model import SurveyResult
from trellis.core.advice.survey.scope import SurveyObjects, WorkloadFilter
from trellis.core.advice.survey.usage import SurveySettings
from trellis.core.advice.survey.workloads import find_workloads
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.registry import apply_preset, create_built_in_recommenders, read_presets
from trellis.sim.backtest.request import SHORT_NAMES, load_recommender
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.settings import PrometheusSettings
from trellis.sources.series.files import find_parts
from trellis.sources.series.units import Machine
from trellis.sources.survey.cluster import list_cluster_workloads
from trellis.sources.survey.files import survey_files
from trellis.sources.survey.prometheus_discovery import find_prometheus
from trellis.sources.survey.resume_file import ResumeFile, build_resume_key
from trellis.sources.survey.settings import survey_settings
from trellis.sources.survey.survey import PrometheusSurvey, PrometheusSurveyProgress


class ConfiguredRecommender(msgspec.Struct, frozen=True):
    """A recommender with its parameters set, and those that were set, as they were written."""

    recommender: Recommender
    parameters: dict[str, str]


def configure_recommender(name: str, sets: Sequence[str]) -> ConfiguredRecommender:
    """The recommender of a name, built in or from an installed package; raises `InvalidInput`."""
    installed = {plugin: plugins[0].value for plugin, plugins in find_plugins().items() if len(plugins) == 1}
    choices = {**dict.fromkeys(create_built_in_recommenders(), ""), **installed}
    if name not in choices:
        guess = suggest_name(name, choices)
        hint = f' (did you mean "{guess}"?)' if guess else ""
        raise InvalidInput(
            name, f"flag --recommender: there is none of this name{hint}; there are {', '.join(choices)}"
        )
    recommender = load_recommender(name, choices[name])
    try:
        parameters = _expand_names(recommender, read_presets(sets, [name]).get(name, {}))
        return ConfiguredRecommender(apply_preset(recommender, parameters), parameters)
    except InvalidInput as error:
        raise InvalidInput(error.value, f"flag --set: {error.rule}") from error


def _expand_names(recommender: Recommender, parameters: dict[str, str]) -> dict[str, str]:
    """The parameters with short names expanded."""
    declared = {parameter.name for parameter in recommender.parameters}
    expanded: dict[str, str] = {}
    for name, value in parameters.items():
        full_name = [parameter for parameter in SHORT_NAMES.get(name, ()) if parameter in declared]
        expanded |= dict.fromkeys([name] if name in declared or not full_name else full_name, value)
    return expanded


_PART = "reading usage"
_FIELD_MANAGER = "trellis-recommend"
# What only a recommendation that is computed here depends on.
_COMPUTES = (
    *("recommender", "sets", "history", "resolution", "resume"),
    *("prometheus_config", "prometheus_headers", "prometheus_tenant"),
)
_FILES_NAME_NO_KINDS = "only for a cluster or Prometheus; files of usage name neither kinds nor labels of workloads"


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
    def workload_filter(self) -> WorkloadFilter:
        """The filter for workloads; raises `InvalidInput` with the flag."""
        labels = [label.strip() for label in self.job_labels.split(",") if label.strip()]
        parts: dict[str, dict[str, Any]] = {
            "--selector": {"selector": self.selector},
            "--kind": {"kinds": self.kinds},
            "--job-grouping-labels": {"job_labels": labels},
        }
        for flag, part in parts.items():
            try:
                WorkloadFilter.parse(**part)
            except InvalidInput as error:
                raise InvalidInput(error.value, f"flag {flag}: {error.rule}") from error
        return WorkloadFilter.parse(self.namespaces, self.selector, self.kinds, labels)

    def load_settings(self) -> PrometheusSettings:
        """Settings of Prometheus; flags win over the environment, and that over a file."""
        headers = list(self.prometheus_headers)
        headers += [f"X-Scope-OrgID={self.prometheus_tenant}"] if self.prometheus_tenant else []
        options = PrometheusOptions(
            self.prometheus_url, self.history, self.resolution, self.prometheus_config, tuple(headers)
        )
        return survey_settings(*options.list_sources())


class SurveyOutcome(msgspec.Struct, frozen=True):
    """The result of a survey, the parameters of its recommender, and whether it was stopped."""

    result: SurveyResult
    parameters: dict[str, str] = {}
    is_stopped: bool = False


def run_survey(traces: Sequence[str], **parameters: Any) -> SurveyOutcome:
    """Survey the workloads that the options select; raises errors of ours."""
    options = SurveyOptions(**parameters)
    _check(traces, options)
    configured = configure_recommender(options.recommender, options.sets)
    settings = SurveySettings(configured.recommender, totals=options.suggest_buckets)
    if traces:
        machine = read_machine(options.machine)
        outcome = SurveyOutcome(_survey_files(traces, options, settings, machine))
    else:
        outcome = asyncio.run(_run_in_cluster(options, settings, time.time()))
    return msgspec.structs.replace(outcome, parameters=configured.parameters)


def _survey_files(
    traces: Sequence[str], options: SurveyOptions, settings: SurveySettings, machine: Machine
) -> SurveyResult:
    with open_inputs(traces) as (paths, restore_names):
        source = ", ".join(restore_names(path) for path in paths)
        surveyed = survey_files(find_parts(paths), source, options.workload_filter, settings, machine)
    missing = tuple(
        msgspec.structs.replace(item, what=restore_names(item.what), why=restore_names(item.why))
        for item in surveyed.missing
    )
    return msgspec.structs.replace(surveyed, missing=missing)


def _check(traces: Sequence[str], options: SurveyOptions) -> None:
    if options.vpas and (traces or options.no_cluster or options.prometheus_url):
        raise click.UsageError("--vpas reads everything from the cluster: give neither files nor options of Prometheus")
    if options.vpas:
        refuse_options(*_COMPUTES, because="--vpas reads recommendations and computes none")
    if options.suggest_buckets and (traces or options.vpas):
        raise click.UsageError("--suggest-buckets needs Prometheus, which knows how many pods there were")
    if traces and (options.prometheus_url or options.no_cluster or options.resume):
        raise click.UsageError("give files with usage or options of Prometheus, and not both")
    if traces:
        refuse_with_files("history", "resolution", "prometheus_config", "prometheus_headers", "prometheus_tenant")
        refuse_with_files("selector", "kinds", "job_labels", because=_FILES_NAME_NO_KINDS)
        refuse_with_files("context", "kubeconfig", because="only for a cluster; here usage is read from files")
    else:
        refuse_options("machine", because="only for files with usage")
    if options.no_cluster:
        refuse_options("context", "kubeconfig", because="--no-cluster asks no API server")
    if options.no_cluster and not options.prometheus_url:
        raise click.UsageError("--no-cluster needs --prometheus-url: Prometheus is found only in a cluster")


async def _run_in_cluster(options: SurveyOptions, survey_settings: SurveySettings, now: float) -> SurveyOutcome:
    choice, settings = options.workload_filter, options.load_settings()
    if options.no_cluster:
        async with PrometheusClient(settings, fail_fast=True) as prometheus:
            return await _survey_prometheus(options, prometheus, settings, survey_settings=survey_settings, now=now)
    async with open_chosen_client(options.kubeconfig, options.context, _FIELD_MANAGER) as (client, home):
        present = await list_cluster_workloads(client, choice, home, nodes=options.suggest_buckets)
        if options.vpas:
            return SurveyOutcome(_survey_vpas(present, choice, now))
        if options.prometheus_url:
            async with PrometheusClient(settings, fail_fast=True) as prometheus:
                return await _survey_prometheus(
                    options, prometheus, settings, survey_settings=survey_settings, now=now, present=present
                )
        async with find_prometheus(client, settings, now) as (prometheus, place):
            outcome = await _survey_prometheus(
                options, prometheus, settings, survey_settings=survey_settings, now=now, present=present
            )
            result = msgspec.structs.replace(outcome.result, source=str(place))
            return msgspec.structs.replace(outcome, result=result)


def _survey_vpas(present: SurveyObjects, choice: WorkloadFilter, now: float) -> SurveyResult:
    selected = find_workloads(present, choice)
    return SurveyResult(
        time=now,
        source="the cluster's VerticalPodAutoscalers",
        recommender="as each of them names",
        workloads=estimate_from_vpas(selected.workloads.values(), present.vpas),
        missing=present.missing,
    )


async def _survey_prometheus(
    options: SurveyOptions,
    prometheus: PrometheusClient,
    settings: PrometheusSettings,
    *,
    survey_settings: SurveySettings,
    now: float,
    present: SurveyObjects | None = None,
) -> SurveyOutcome:
    resume_file = ResumeFile(
        now, options.resume, build_resume_key(settings, survey_settings) if options.resume else None
    )
    with _follow_progress(quiet=options.quiet) as (report, stop):
        survey = PrometheusSurvey(
            prometheus,
            settings,
            options.workload_filter,
            survey_settings,
            resume_file=resume_file,
            report=report,
            stop=stop,
        )
        surveyed = await survey.run(present)
        return SurveyOutcome(surveyed, is_stopped=stop())


@contextmanager
def _follow_progress(*, quiet: bool) -> Iterator[Any]:
    """A function that reports progress, and one that returns whether a stop is requested."""
    with (
        catch_interrupt(
            "stopping after this namespace, or at once on another Ctrl-C; the results so far follow"
        ) as stop_requested,
        show_progress([_PART], lambda rate: f"{rate:,.1f} namespaces/s", quiet=quiet) as report_progress,
    ):

        def report(progress: PrometheusSurveyProgress) -> None:
            report_progress(_PART, progress.done, max(progress.total, 1))

        yield report, stop_requested
