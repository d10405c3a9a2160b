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
from bench.recommender.cluster import Size, patiently, populated, recommended, reported, rewind, wait_for_usage, written
from testbed.access import shipped_accounts, upstream_accounts
from testbed.cluster import Cluster
from testbed.controllers import Controller, running
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


class Taken(msgspec.Struct, frozen=True):
    """What one side took. Steps and CPU are seconds of one later pass, writes are those of one later pass."""

    steps: dict[str, float]
    cpu: float
    statuses: float
    checkpoints: float
    peak: float  # resident megabytes
    first: float  # seconds from its start until every VPA had a recommendation


class Ground(msgspec.Struct, frozen=True):
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
    return measured(THOUSAND)


def measure_large() -> list[Row]:
    """On request: it takes some twenty minutes."""
    return measured(FIVE_THOUSAND)


def measured(profile: Profile) -> list[Row]:
    """Both sides, on one cluster."""
    try:
        with populated(profile.size, say) as (cluster, directory):
            ground = Ground(profile, cluster, directory)
            theirs = take(ground, upstream_side(cluster))
            ours = take(ground, our_side(cluster))
    except HarnessError as error:
        raise CannotMeasure(str(error)) from error
    return rows(profile, ours, theirs)


def upstream_side(cluster: Cluster, rates: tuple[str, ...] = RATES) -> Side:
    return Side(
        "upstream", (upstream_accounts.RECOMMENDER.path(),), upstream_accounts.RECOMMENDER.kubeconfig(cluster), rates
    )


def our_side(cluster: Cluster) -> Side:
    command = (sys.executable, "-m", "trellis", "recommender")
    return Side("ours", command, shipped_accounts.account(cluster, "recommender"))


def rows(profile: Profile, ours: Taken, theirs: Taken) -> list[Row]:
    """Against upstream and against the bars."""
    a_pass, writes = _total(ours), ("UpdateVPAs", "MaintainCheckpoints")
    writing, peers = (sum(side.steps.get(step, 0.0) for step in writes) for side in (ours, theirs))
    first = profile.first_seconds
    return [
        _seconds(f"{profile.size}: a later pass", a_pass, _total(theirs), profile.pass_seconds),
        _seconds("  statuses and checkpoints alone", writing, peers),
        Row(
            "  statuses + checkpoints written in it",
            f"{ours.statuses:,.0f} + {ours.checkpoints:,.0f}",
            f"{theirs.statuses:,.0f} + {theirs.checkpoints:,.0f}",
        ),
        _seconds("  CPU from pass to pass", ours.cpu, theirs.cpu),
        _seconds("  from start to the last first status", ours.first, theirs.first, first),
        Row(
            "  peak memory",
            f"{ours.peak:.0f} MB",
            f"{theirs.peak:.0f} MB",
            f"{theirs.peak / ours.peak:.1f}x",
            "<= peer",
            ours.peak <= theirs.peak,
        ),
    ]


def _seconds(what: str, ours: float, theirs: float, bar: float | None = None) -> Row:
    ratio = f"{theirs / ours:.1f}x" if ours else "-"
    texts = (what, f"{ours:.2f} s", f"{theirs:.2f} s", ratio)
    return Row(*texts) if bar is None else Row(*texts, f"<= {bar:g} s", ours <= bar)


def take(ground: Ground, side: Side) -> Taken:
    """Run it until the later passes are behind it."""
    profile, cluster = ground.profile, ground.cluster
    flags = [f"--recommender-interval={profile.interval}s", *side.flags]
    rewind(cluster, profile.size)
    wait_for_usage(cluster, profile.size)
    started = time.monotonic()
    with running(side.command, side.kubeconfig, ground.directory / f"{side.name}.log", flags) as controller:

        def all_recommended() -> bool:
            controller.process.check()
            return recommended(cluster) == profile.size.vpas

        patiently("a recommendation for every VPA", all_recommended, 600.0)
        first = time.monotonic() - started
        say(f"{side.name}: every VPA has a recommendation after {first:.0f} s")
        early = _after(ground, controller, FIRST_PASSES)
        late = _after(ground, controller, PASSES)
        peak = peak_megabytes(controller.process.pid)
    _check_that_usage_flowed(ground)
    taken = _between(early, late, peak, first)
    say(f"{side.name}: {msgspec.json.encode(taken).decode()}")
    return taken


def _check_that_usage_flowed(ground: Ground) -> None:
    """A machine that is busy with something else loses scrapes, and then a pass has little to do."""
    found, pods = reported(ground.cluster), ground.profile.size.pods
    if found < FLOWING * pods:
        raise CannotMeasure(f"usage of {found:,} of {pods:,} pods was reported at the end: the machine is too busy")


def _after(ground: Ground, controller: Controller, passes: int) -> Reading:
    """What it has done once it has so many passes behind it."""

    def done() -> bool:
        controller.process.check()
        return _steps(controller)[1] >= passes

    patiently(f"{passes} passes", done, passes * (ground.profile.interval + 180.0))
    steps, found = _steps(controller)
    cpu = cpu_seconds(controller.process.pid)
    return Reading(steps, found, cpu, *written(ground.cluster))


def _between(early: Reading, late: Reading, peak: float, first: float) -> Taken:
    passes = late.passes - early.passes
    return Taken(
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
    for family in text_string_to_metric_families(controller.metrics()):
        if family.name != LATENCY:
            continue
        for sample in family.samples:
            if sample.name == f"{LATENCY}_sum":
                steps[sample.labels["step"]] = sample.value
            elif sample.name == f"{LATENCY}_count" and sample.labels["step"] == TOTAL:
                passes = sample.value
    return steps, passes


def _total(taken: Taken) -> float:
    return taken.steps[TOTAL]


def say(line: str) -> None:
    """Progress is for whoever waits, at once."""
    print(f"recommender_side_by_side: {line}", file=sys.stderr, flush=True)
