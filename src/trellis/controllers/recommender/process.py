"""Composes the process of the recommender: client, probes, one lease for each name, and the controller."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Final

from trellis.base.garbage_collection import freeze_live_objects
from trellis.controllers.recommender.leader_election import RecommenderElections, lease_names
from trellis.controllers.recommender.metrics import RECOMMENDER_METRICS
from trellis.controllers.recommender.plugins.hosted_recommenders import HostedRecommenders, host_recommenders
from trellis.controllers.recommender.reconcile import RecommenderController
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.core.recording.format import RECOMMENDER
from trellis.kube.client import Client
from trellis.kube.client_factory import open_client
from trellis.kube.leader_election import Election
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer, WriterSettings
from trellis.runtime.leadership import make_candidate, make_identity
from trellis.runtime.passes import expect_passes
from trellis.runtime.recorder import Recorder, open_recorder
from trellis.runtime.shutdown import Main, Shutdown
from trellis.runtime.telemetry.cluster_metrics import write_reporter
from trellis.runtime.telemetry.health_server import serve_health
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

FIELD_MANAGER: Final = "trellis-recommender"

_log: Final = Logger("trellis.recommender")


def recommender_main(settings: RecommenderSettings) -> Main:
    """What a process with these settings does until it is told to stop."""

    async def main(stop: Shutdown) -> None:
        metrics = Metrics(RECOMMENDER_METRICS)
        hosted = host_recommenders(settings, metrics)
        try:
            with closing(open_recorder(settings.recording.record, RECOMMENDER, settings)) as recording:
                async with open_client(settings.access.kubeconfig, FIELD_MANAGER, _log.warning) as client:
                    await _run_recommender(client, settings, metrics, hosted, stop, recording=recording)
        finally:
            hosted.close()

    return main


async def _run_recommender(
    client: Client,
    settings: RecommenderSettings,
    metrics: Metrics,
    hosted: HostedRecommenders,
    stop: Shutdown,
    *,
    recording: Recorder,
) -> None:
    activity = expect_passes(settings.loop.recommender_interval.total_seconds())
    report = write_reporter(metrics, _log)
    leading = _create_elections(client, settings, report, stop)
    writer = Writer(client, record=report, may_write=leading.may_write, settings=_writer_settings(settings))
    recommender = RecommenderController(
        client,
        writer,
        settings,
        hosted=hosted,
        leading=leading,
        metrics=metrics,
        activity=activity,
        now=lambda: datetime.now(UTC).timestamp(),
        draw=random.random,
        on_settled=freeze_live_objects,
        recorder=recording,
    )
    async with serve_health(
        settings.health,
        metrics=metrics,
        activity=activity,
        alive={"passes": activity.check},
        ready={"informers": recommender.why_not_ready},
        remarks=recommender.informers.remarks,
        pages=recommender.http_api.pages,
    ) as address:
        names = ",".join(settings.loop.recommender_name)
        _log.info("started", recommenders=names, address=address, leases=settings.leader.leader_elect)
        await recommender.run(stop)


def _writer_settings(settings: RecommenderSettings) -> WriterSettings:
    access = settings.access
    writes = settings.loop.update_worker_count
    return WriterSettings(read_only=access.read_only, concurrency=writes, rate=access.write_rate)


def _create_elections(
    client: Client, settings: RecommenderSettings, report: Callable[[WriteOutcome], None], stop: Shutdown
) -> RecommenderElections:
    """Who may serve which name."""
    leader, names = settings.leader, settings.loop.recommender_name
    leases = lease_names(names, leader.leader_elect_resource_name, leader.leader_elect_resource_namespace)
    who = make_identity()

    def elect(name: str, on_change: Callable[[bool], None]) -> Election:
        return make_candidate(client, leader, report=report, on_change=on_change, identity=who, lease=leases[name])

    def lost(name: str) -> None:
        if stop.reason is None:
            _log.error("lost the lease", recommender=name, why=leading.why_lost(name))
            stop.request(f"lost the lease of recommender {name}")

    leading = RecommenderElections(
        names,
        # Who writes nothing takes no lease either, and so never stops the one who does the work.
        elect if leader.leader_elect and not settings.access.read_only else None,
        on_won=lambda name: _log.info("leading", recommender=name, identity=who),
        on_lost=lost,
    )
    return leading
