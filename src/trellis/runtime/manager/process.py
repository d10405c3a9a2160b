"""A process of several components: one client, one set of informers, one HTTP server, and a supervisor for each.

    main = process_main(RunningConfiguration(source), os.environ)
    serve(main)

Each component has its own leases, writes, Events and metrics, as in a process of its own. Probes are answered from the
start: `/readyz` names each component that is not ready, and why. `/livez` fails if a pass hangs, which a restart of the
component would not end.
"""

from __future__ import annotations

import asyncio
import random
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from trellis import __version__
from trellis.api.kube.meta import ObjectReference
from trellis.base.replica_assignment import PROCESS_GROUP
from trellis.kube.client import Client
from trellis.kube.events import EventRecorder, EventReporter
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer, WriterSettings
from trellis.runtime.cached_kinds import WIDEST_KINDS
from trellis.runtime.cluster_connection import connect
from trellis.runtime.leadership import make_identity
from trellis.runtime.manager.configuration.page import PATH, ConfigurationPage, authorize_with
from trellis.runtime.manager.configuration.reload import ConfigurationReloader, RunningConfiguration
from trellis.runtime.manager.configuration.rendering import render_configuration
from trellis.runtime.manager.configuration.reports import ReloadReports, find_own_object
from trellis.runtime.manager.metrics import PROCESS_METRICS, REPLICAS, RESTARTS
from trellis.runtime.manager.settings import ProcessSettings
from trellis.runtime.manager.supervisor import DownReason, ManagedComponent, Supervisor
from trellis.runtime.replicas.leader_spread import SPREAD_TIMES, LeaderSpread
from trellis.runtime.replicas.membership import Membership
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.shutdown import Main, Shutdown, run_together, run_until_stopped
from trellis.runtime.telemetry import logs
from trellis.runtime.telemetry.cluster_metrics import is_expected
from trellis.runtime.telemetry.component_metrics import ProcessMetrics, export_readiness
from trellis.runtime.telemetry.event_queue import EventFailureLog, EventQueue
from trellis.runtime.telemetry.health_server import ConfigPage, Page, serve_health
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.runtime.telemetry.tracing import exporting_traces

FIELD_MANAGER: Final = "trellis"

# A process of one component has nothing to spread.
_FEWEST_TO_SPREAD: Final = 2

_log: Final = Logger("trellis.run")


def process_main(configuration: RunningConfiguration, environment: Mapping[str, str]) -> Main:
    """What a process does that has this configuration; the `environment` may name its pod."""

    async def main(stop: Shutdown) -> None:
        settings = configuration.effective.process.settings
        with exporting_traces(settings.health.tracing_endpoint):
            async with connect(settings.access, FIELD_MANAGER, _log) as client:
                await run_process(configuration, stop, client, environment)

    return main


async def run_process(
    configuration: RunningConfiguration, stop: Shutdown, client: Client, environment: Mapping[str, str]
) -> None:
    """Answer probes and run the components until it is time to stop."""
    settings = configuration.effective.process.settings
    components = configuration.manage_all()
    metrics = Metrics(PROCESS_METRICS)
    shared = SharedInformers((kind for managed in components for kind in managed.followed), WIDEST_KINDS)

    def count_restart(name: str, reason: str) -> None:
        metrics.add(RESTARTS, 1, name, reason)
        shared.expect(kind for supervisor in supervisors for kind in supervisor.followed)

    for managed in components:
        for reason in (DownReason.LEASE_LOST, DownReason.FAILED):
            # A first restart shows as a rise.
            metrics.add(RESTARTS, 0, managed.name, reason)
    spread = _create_spread(settings, components, client)
    supervisors = [
        Supervisor(managed, client, shared, on_restart=count_restart, spread=spread) for managed in components
    ]
    metrics.register_flush(partial(_export, metrics, supervisors, spread))
    events = _build_events(settings, client)
    reloader = ConfigurationReloader(
        configuration,
        {supervisor.name: supervisor for supervisor in supervisors},
        ReloadReports(metrics, events.record, _find_own_object(configuration, environment), _read_clock),
        lambda logging: logs.configure(logging, sys.stderr),
    )
    async with serve_health(
        settings.health,
        metrics=ProcessMetrics(metrics, lambda: _list_metrics(supervisors)),
        activity=lambda: _find_first_problem(supervisors),
        alive={supervisor.name: supervisor.find_liveness_problem for supervisor in supervisors},
        ready={supervisor.name: supervisor.find_readiness_problem for supervisor in supervisors},
        remarks=lambda: [remark for supervisor in supervisors for remark in supervisor.remarks()],
        pages={**_list_pages(supervisors), PATH: _build_page(configuration, client).show},
    ) as address:
        _log.info("started", address=address, components=",".join(managed.name for managed in components))
        posting = asyncio.create_task(events.run(), name="events of the process")
        try:
            mains: list[Main] = [*(supervisor.run for supervisor in supervisors), reloader.run]
            if spread is not None:
                mains.append(partial(_follow_replicas, spread))
            await run_together(*mains)(stop)
        finally:
            posting.cancel()


def _build_page(configuration: RunningConfiguration, client: Client) -> ConfigurationPage:
    # Who may read it does not change while the process runs.
    is_reviewed = configuration.effective.process.settings.health.config_page is ConfigPage.AUTHENTICATED

    def render() -> str:
        heading = (
            f"Settings of trellis {__version__} in effect, with the origin of each.",
            f"Hash: {configuration.hash}",
        )
        return render_configuration(configuration.effective, configuration.pending, heading)

    return ConfigurationPage(render, authorize_with(client) if is_reviewed else None)


def _build_events(settings: ProcessSettings, client: Client) -> EventQueue:
    """The Events of the process itself; every replica posts its own, whether it leads or not."""
    failures = EventFailureLog(_log)
    access = settings.access
    writer_settings = WriterSettings(read_only=access.read_only, concurrency=1, rate=access.write_rate)
    writer = Writer(client, record=failures.note, settings=writer_settings)
    return EventQueue(
        EventRecorder(writer, EventReporter(FIELD_MANAGER, socket.gethostname()), now=lambda: datetime.now(UTC))
    )


def _find_own_object(configuration: RunningConfiguration, environment: Mapping[str, str]) -> ObjectReference:
    """The pod, else the Lease of the first component that has one."""
    leases = (
        getattr(getattr(own.settings, "leader", None), "leader_elect_resource_name", "")
        for own in configuration.effective.components.values()
    )
    namespace = configuration.effective.process.settings.election.leader_elect_resource_namespace
    return find_own_object(environment, namespace, next(filter(None, leases), FIELD_MANAGER))


def _read_clock() -> float:
    return datetime.now(UTC).timestamp()


def _create_spread(
    settings: ProcessSettings, components: Sequence[ManagedComponent], client: Client
) -> LeaderSpread | None:
    """The spread of leaders over replicas; None where there is nothing to spread."""
    is_elected = settings.election.leader_elect and not settings.access.read_only
    if not is_elected or not settings.spread.spread_leaders or len(components) < _FEWEST_TO_SPREAD:
        return None
    return LeaderSpread(
        Membership(
            client,
            group=PROCESS_GROUP,
            namespace=settings.election.leader_elect_resource_namespace,
            identity=make_identity(),
            draw=random.random,
            times=SPREAD_TIMES,
            report=_log_failed_write,
        )
    )


def _log_failed_write(outcome: WriteOutcome) -> None:
    if not is_expected(outcome):
        _log.warning("writing the member Lease failed", result=outcome.result.value, why=outcome.message)


async def _follow_replicas(spread: LeaderSpread, stop: Shutdown) -> None:
    await run_until_stopped(stop, spread.run(), "replicas")


def _export(metrics: Metrics, supervisors: Iterable[Supervisor], spread: LeaderSpread | None) -> None:
    if spread is not None:
        metrics.set(REPLICAS, spread.replicas)
    problems = {supervisor.name: supervisor.find_problem() for supervisor in supervisors}
    export_readiness(metrics, {name: problem.reason if problem else None for name, problem in problems.items()})


def _list_metrics(supervisors: Iterable[Supervisor]) -> dict[str, Metrics]:
    return {supervisor.name: supervisor.metrics for supervisor in supervisors if supervisor.metrics is not None}


def _find_first_problem(supervisors: Iterable[Supervisor]) -> str | None:
    problems = ((supervisor.name, supervisor.find_liveness_problem()) for supervisor in supervisors)
    return next((f"{name}: {problem}" for name, problem in problems if problem), None)


def _list_pages(supervisors: Iterable[Supervisor]) -> dict[str, Page]:
    return {path: partial(supervisor.show_page, path) for supervisor in supervisors for path in supervisor.paths}
