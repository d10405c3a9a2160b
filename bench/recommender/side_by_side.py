"""Compares upstream's recommender with ours, in turn, on the same cluster, with the same usage and interval.

Both run as they would in production, each under its own ServiceAccount with the rights that it ships with, and work
until some passes after the first are behind them; what a later pass takes is the difference between what their metrics
and the kernel say at its beginning and at its end, writes included. Each finds a week of history in checkpoints and no
statuses. Upstream gets generous rates (`RATES`) in place of its defaults of 50 and 100; ours has no limit by default.
What is too short to be seen: statuses that ours writes again only for their age, each once in ten minutes.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from bench.measurement import CannotMeasure, Row
from bench.process_usage import cpu_seconds, peak_megabytes
from bench.recommender.cluster import (
    Size,
    count_recommended,
    count_reported,
    count_writes,
    populated,
    rewind,
    wait_for,
    wait_for_usage,
)
from testbed.access import shipped_accounts, upstream_accounts
from testbed.cluster import Cluster
from testbed.controllers import Controller, run_controller
from testbed.errors import HarnessError

LATENCY = "vpa_recommender_execution_latency_seconds"
TOTAL = "total"

RATES = ("--kube-api-qps=500", "--kube-api-burst=1000")

# Passes that are waited for, and after which of them the later ones begin.
PASSES, FIRST_PASSES = 3, 1

# Share of the pods whose usage must still be reported at the end.
FLOWING = 0.95


class Profile(msgspec.Struct, frozen=True):
    """What is measured, and how good it must be."""

    size: Size
    interval: int  # seconds between two passes
    pass_seconds: float
    first_seconds: float | None = None  # until every VPA has a recommendation


THOUSAND = Profile(Size(1_000, 10_000), interval=30, pass_seconds=2.0)
FIVE_THOUSAND = Profile(Size(5_000, 18_000), interval=60, pass_seconds=6.0, first_seconds=60.0)


class Reading(msgspec.Struct, frozen=True):
    """What has been done so far: seconds of each step and of CPU, and what the API server has written."""

    steps: dict[str, float]
    passes: float
    cpu: float
    statuses: int
    checkpoints: int


class SideMeasurement(msgspec.Struct, frozen=True):
    """What one side took. Steps and CPU are seconds of one later pass, writes are those of one later pass."""

    steps: dict[str, float]
    cpu: float
    statuses: float
    checkpoints: float
    peak: float  # resident megabytes
    first: float  # seconds from its start until every VPA had a recommendation


class Testbed(msgspec.Struct, frozen=True):
    """Where both sides run."""

    profile: Profile
    cluster: Cluster
    directory: Path


class Side(msgspec.Struct, frozen=True):
    """A recommender to run."""

    name: str
    command: tuple[str | Path, ...]
    kubeconfig: Path
    flags: tuple[str, ...] = ()


def measure() -> list[Row]:
    return measure_profile(THOUSAND)


def measure_large() -> list[Row]:
    """On request: it takes some twenty minutes."""
    return measure_profile(FIVE_THOUSAND)


def measure_profile(profile: Profile) -> list[Row]:
    """Both sides, on one cluster."""
    try:
        with populated(profile.size, report) as (cluster, directory):
            ground = Testbed(profile, cluster, directory)
            upstream = measure_side(ground, upstream_side(cluster))
            trellis = measure_side(ground, trellis_side(cluster))
    except HarnessError as error:
        raise CannotMeasure(str(error)) from error
    return rows(profile, trellis, upstream)


def upstream_side(cluster: Cluster, rates: tuple[str, ...] = RATES) -> Side:
    return Side(
        "upstream", (upstream_accounts.RECOMMENDER.path(),), upstream_accounts.RECOMMENDER.kubeconfig(cluster), rates
    )


def trellis_side(cluster: Cluster) -> Side:
    command = (sys.executable, "-m", "trellis", "recommender")
    return Side("ours", command, shipped_accounts.create_account(cluster, "recommender"))


def rows(profile: Profile, trellis: SideMeasurement, upstream: SideMeasurement) -> list[Row]:
    """Against upstream and against the bars."""
    a_pass, writes = _total(trellis), ("UpdateVPAs", "MaintainCheckpoints")
    writing, peers = (sum(side.steps.get(step, 0.0) for step in writes) for side in (trellis, upstream))
    first = profile.first_seconds
    return [
        _seconds(f"{profile.size}: a later pass", a_pass, _total(upstream), profile.pass_seconds),
        _seconds("  statuses and checkpoints alone", writing, peers),
        Row(
            "  statuses + checkpoints written in it",
            f"{trellis.statuses:,.0f} + {trellis.checkpoints:,.0f}",
            f"{upstream.statuses:,.0f} + {upstream.checkpoints:,.0f}",
        ),
        _seconds("  CPU from pass to pass", trellis.cpu, upstream.cpu),
        _seconds("  from start to the last first status", trellis.first, upstream.first, first),
        Row(
            "  peak memory",
            f"{trellis.peak:.0f} MB",
            f"{upstream.peak:.0f} MB",
            f"{upstream.peak / trellis.peak:.1f}x",
            "<= peer",
            trellis.peak <= upstream.peak,
        ),
    ]


def _seconds(title: str, value: float, peer: float, bar: float | None = None) -> Row:
    ratio = f"{peer / value:.1f}x" if value else "-"
    texts = (title, f"{value:.2f} s", f"{peer:.2f} s", ratio)
    return Row(*texts) if bar is None else Row(*texts, f"<= {bar:g} s", value <= bar)


def measure_side(ground: Testbed, side: Side) -> SideMeasurement:
    """Run it until the later passes are behind it."""
    profile, cluster = ground.profile, ground.cluster
    flags = [f"--recommender-interval={profile.interval}s", *side.flags]
    rewind(cluster, profile.size)
    wait_for_usage(cluster, profile.size)
    started = time.monotonic()
    with run_controller(side.command, side.kubeconfig, ground.directory / f"{side.name}.log", flags) as controller:

        def all_recommended() -> bool:
            controller.process.check()
            return count_recommended(cluster) == profile.size.vpas

        wait_for("a recommendation for every VPA", all_recommended, 600.0)
        first = time.monotonic() - started
        report(f"{side.name}: every VPA has a recommendation after {first:.0f} s")
        early = _wait_and_read(ground, controller, FIRST_PASSES)
        late = _wait_and_read(ground, controller, PASSES)
        peak = peak_megabytes(controller.process.pid)
    _check_that_usage_flowed(ground)
    measurement = _average_per_pass(early, late, peak, first)
    report(f"{side.name}: {msgspec.json.encode(measurement).decode()}")
    return measurement


def _check_that_usage_flowed(ground: Testbed) -> None:
    """A machine that is busy with something else loses scrapes, and then a pass has little to do."""
    reported_pods, pods = count_reported(ground.cluster), ground.profile.size.pods
    if reported_pods < FLOWING * pods:
        raise CannotMeasure(
            f"usage of {reported_pods:,} of {pods:,} pods was reported at the end: the machine is too busy"
        )


def _wait_and_read(ground: Testbed, controller: Controller, passes: int) -> Reading:
    """What it has done once it has so many passes behind it."""

    def has_passed() -> bool:
        controller.process.check()
        return _steps(controller)[1] >= passes

    wait_for(f"{passes} passes", has_passed, passes * (ground.profile.interval + 180.0))
    steps, count = _steps(controller)
    cpu = cpu_seconds(controller.process.pid)
    return Reading(steps, count, cpu, *count_writes(ground.cluster))


def _average_per_pass(early: Reading, late: Reading, peak: float, first: float) -> SideMeasurement:
    passes = late.passes - early.passes
    return SideMeasurement(
        steps={step: (seconds - early.steps.get(step, 0.0)) / passes for step, seconds in late.steps.items()},
        cpu=(late.cpu - early.cpu) / passes,
        statuses=(late.statuses - early.statuses) / passes,
        checkpoints=(late.checkpoints - early.checkpoints) / passes,
        peak=peak,
        first=first,
    )


def _steps(controller: Controller) -> tuple[dict[str, float], float]:
    """Seconds of each step so far, and whole passes."""
    steps: dict[str, float] = {}
    passes = 0.0
    for family in text_string_to_metric_families(controller.read_metrics()):
        if family.name != LATENCY:
            continue
        for sample in family.samples:
            if sample.name == f"{LATENCY}_sum":
                steps[sample.labels["step"]] = sample.value
            elif sample.name == f"{LATENCY}_count" and sample.labels["step"] == TOTAL:
                passes = sample.value
    return steps, passes


def _total(measurement: SideMeasurement) -> float:
    return measurement.steps[TOTAL]


def report(message: str) -> None:
    """Print progress at once."""
    print(f"recommender_side_by_side: {message}", file=sys.stderr, flush=True)
