"""What does the process of a recommender consist of? The client, the probes, the leases and the recommender itself."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Final

from trellis.base.collector import set_aside
from trellis.controllers.recommender.hosting import Hosted, host
from trellis.controllers.recommender.leading import Leading, lease_names
from trellis.controllers.recommender.metrics import RECOMMENDER_METRICS
from trellis.controllers.recommender.recommender import Recommender
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.core.model.recording import RECOMMENDER
from trellis.kube.client import Client
from trellis.kube.connected import connected
from trellis.kube.leases import Election
from trellis.kube.outcomes import Outcome
from trellis.kube.writer import Writer, WriterSettings
from trellis.runtime.elections import candidate, identity
from trellis.runtime.health_server import serving
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.pass_reports import passes_expected
from trellis.runtime.recording import Recorder, recorder
from trellis.runtime.shutdown import Main, Shutdown
from trellis.runtime.write_reports import reporting

FIELD_MANAGER: Final = "trellis-recommender"

_log: Final = Logger("trellis.recommender")


def recommending(settings: RecommenderSettings) -> Main:
    """What a process with these settings does until it is told to stop."""

    async def main(stop: Shutdown) -> None:
        metrics = Metrics(RECOMMENDER_METRICS)
        hosted = host(settings, metrics)
        try:
            with closing(recorder(settings.recording.record, RECOMMENDER, settings)) as recording:
                async with connected(settings.access.kubeconfig, FIELD_MANAGER, _log.warning) as client:
                    await _run(client, settings, metrics, hosted, stop, recording=recording)
        finally:
            hosted.close()

    return main


async def _run(
    client: Client,
    settings: RecommenderSettings,
    metrics: Metrics,
    hosted: Hosted,
    stop: Shutdown,
    *,
    recording: Recorder,
) -> None:
    activity = passes_expected(settings.loop.recommender_interval.total_seconds())
    report = reporting(metrics, _log)
    leading = _leading(client, settings, report, stop)
    writer = Writer(client, record=report, may_write=leading.may_write, settings=_writer_settings(settings))
    recommender = Recommender(
        client,
        writer,
        settings,
        hosted=hosted,
        leading=leading,
        metrics=metrics,
        activity=activity,
        now=lambda: datetime.now(UTC).timestamp(),
        draw=random.random,
        on_settled=set_aside,
        recorder=recording,
    )
    async with serving(
        settings.health,
        metrics=metrics,
        activity=activity,
        alive={"passes": activity.check},
        ready={"informers": recommender.why_not_ready},
        remarks=recommender.informers.remarks,
        pages=recommender.answering.pages,
    ) as address:
        names = ",".join(settings.loop.recommender_name)
        _log.info("started", recommenders=names, address=address, leases=settings.leader.leader_elect)
        await recommender.run(stop)


def _writer_settings(settings: RecommenderSettings) -> WriterSettings:
    access = settings.access
    writes = settings.loop.update_worker_count
    return WriterSettings(read_only=access.read_only, concurrency=writes, rate=access.write_rate)


def _leading(
    client: Client, settings: RecommenderSettings, report: Callable[[Outcome], None], stop: Shutdown
) -> Leading:
    """Who may serve which name."""
    leader, names = settings.leader, settings.loop.recommender_name
    leases = lease_names(names, leader.leader_elect_resource_name, leader.leader_elect_resource_namespace)
    who = identity()

    def elect(name: str, on_change: Callable[[bool], None]) -> Election:
        return candidate(client, leader, report=report, on_change=on_change, identity=who, lease=leases[name])

    def lost(name: str) -> None:
        if stop.reason is None:
            _log.error("lost the lease", recommender=name, why=leading.why_lost(name))
            stop.request(f"lost the lease of recommender {name}")

    leading = Leading(
        names,
        # Who writes nothing takes no lease either, and so never stops the one who does the work.
        elect if leader.leader_elect and not settings.access.read_only else None,
        on_won=lambda name: _log.info("leading", recommender=name, identity=who),
        on_lost=lost,
    )
    return leading
