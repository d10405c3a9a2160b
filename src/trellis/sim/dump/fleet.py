"""Builds a fleet from a dump: its nodes, workloads and autoscalers as they are, with their usage.

Variants: as the templates of the workloads request, as the VPAs and Hvpas in the dump have it, and for each recommender
that is chosen with a VPA over every workload. What a dump does not say is assumed, and every assumption is noted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from trellis.base.durations import describe_span
from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name
from trellis.base.prices import EXAMPLE_PRICES
from trellis.base.wording import pluralize
from trellis.core.cluster.dump_format import NOT_SERVED
from trellis.core.cluster.state import ClusterState
from trellis.core.cluster.store import Snapshot
from trellis.core.explain import KnownNodeGroups
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.sim.dump.job_runs import ASSUMED_SECONDS, JobRuns, draw_cron_runs, find_job_run, measure_run_lengths
from trellis.sim.dump.nodes import assume_nodes, build_nodes, build_pools
from trellis.sim.dump.usage import DumpUsage
from trellis.sim.dump.variants import build_variants, find_autoscalers
from trellis.sim.dump.workloads import DumpedWorkload, build_template, find_workloads
from trellis.sim.fleet import Fleet, Intervals, SimulatedWorkload, SimulationClock, StartProfile
from trellis.sim.results import NotPlayed, NotPlayedObjects
from trellis.sim.scenario.compiler import DEFAULT_SEED
from trellis.sim.scenario.usage import seeded_generator

_HOUR: Final = 3_600.0
_DAYS: Final = 7
_STEP: Final = 300.0
# The share of the simulated time before anything is counted: recommenders begin without a memory.
_WARM_UP: Final = 0.25
# HPAs act more often than usage is known, because they take several passes to get where it leads them.
_HPA_SECONDS: Final = 60.0
_NODES_SECONDS: Final = 30.0


class DumpedFleet(msgspec.Struct, frozen=True):
    """The fleet, the assumptions, and what is not simulated as it is in the cluster."""

    fleet: Fleet
    notes: tuple[str, ...]
    not_played: tuple[NotPlayed, ...] = ()


def build_fleet_from_dump(
    collected: ClusterState,
    name: str,
    *,
    recommenders: Sequence[str] = (),
    seed: int | None = None,
    groups: KnownNodeGroups | None = None,
) -> DumpedFleet:
    """Build the fleet; raises `InvalidInput` if nothing can be simulated, or for an unknown recommender.

    `groups` are the node groups that the dump declares.
    """
    for recommender in recommenders:
        _check(recommender)
    groups, ledger, clock = groups or KnownNodeGroups(), NotPlayedObjects(), _clock(collected)
    chosen = DEFAULT_SEED if seed is None else seed
    dumped = find_workloads(collected, clock, ledger)
    pools = build_pools(groups, ledger)
    autoscalers = find_autoscalers(collected, dumped, ledger, orders_nodes=bool(pools))
    usage = DumpUsage(collected, dumped.workloads, clock, chosen)
    making = _FleetBuilder(collected, clock, usage, chosen, autoscalers.scaled)
    workloads = tuple(map(making.workload, dumped.workloads))
    if not workloads:
        raise InvalidInput(name, "has no running pods that can be simulated")
    nodes = build_nodes(collected, groups, dumped.static, ledger)
    variants = build_variants(collected, dumped, autoscalers, recommenders)
    _list_the_rest(collected, ledger)
    # Between two steps no usage is new, so deciding more often would only take longer.
    intervals = Intervals(clock.step, clock.step, hpa=min(_HPA_SECONDS, clock.step), nodes=_NODES_SECONDS)
    fleet = Fleet(
        name,
        chosen,
        clock,
        intervals,
        nodes or (() if pools else assume_nodes(workloads)),
        workloads,
        variants,
        prices=EXAMPLE_PRICES,
        pools=pools,
    )
    notes = [
        *making.notes(),
        *([] if nodes or pools else ["the dump has no nodes: enough nodes for all pods are assumed"]),
    ]
    return DumpedFleet(fleet, tuple(notes), tuple(ledger.list_entries()))


def _check(recommender: str) -> None:
    built_in = create_built_in_recommenders()
    if recommender not in built_in:
        guess = suggest_name(recommender, built_in)
        hint = f" (did you mean {guess}?)" if guess else ""
        raise InvalidInput(recommender, f"unknown recommender{hint}; available: {', '.join(built_in)}")


def _clock(collected: ClusterState) -> SimulationClock:
    """The time for which the dump has usage; without any, the last days before it was made."""
    series = collected.history
    if not series:
        end = collected.time // _HOUR * _HOUR
        steps = round(_DAYS * 24 * _HOUR / _STEP)
        return _clocked(end - steps * _STEP, _STEP, steps)
    begin = min(float(one_series.times[0]) for one_series in series)
    end = max(float(one_series.times[-1]) for one_series in series)
    apart = [float(np.median(np.diff(one_series.times))) for one_series in series if len(one_series) > 1]
    step = max(_STEP, float(np.median(apart)) if apart else _STEP)
    return _clocked(begin, step, max(1, round((end - begin) / step) + 1))


def _clocked(begin: float, step: float, steps: int) -> SimulationClock:
    return SimulationClock(begin, step, steps, begin + step * int(steps * _WARM_UP))


class _FleetBuilder:
    """Lays out workloads, and counts the assumptions."""

    def __init__(
        self,
        collected: ClusterState,
        clock: SimulationClock,
        usage: DumpUsage,
        seed: int,
        scaled: frozenset[tuple[str, str]],
    ) -> None:
        self._collected = collected
        self._clock = clock
        self._usage = usage
        self._seed = seed
        self._scaled = scaled
        self._assumed_runs = 0
        self._shared = 0

    def workload(self, dumped: DumpedWorkload) -> SimulatedWorkload:
        """A workload with its demand."""
        runs = self._runs(dumped)
        scales = (dumped.target.namespace, dumped.name) in self._scaled
        self._shared += scales
        longest = max((length for _, length in runs), default=0.0)
        containers = dumped.template.spec.containers
        probed = any(
            container.readiness_probe is not None or container.startup_probe is not None for container in containers
        )
        return SimulatedWorkload(
            namespace=dumped.target.namespace,
            name=dumped.name,
            kind=dumped.kind,
            replicas=dumped.replicas,
            template=build_template(dumped),
            demand=tuple(
                self._usage.demand(dumped, container, scales=scales, longest=longest) for container in dumped.containers
            ),
            start=StartProfile(probe=probed),
            max_unavailable=dumped.max_unavailable,
            label="" if dumped.target.kind == dumped.kind else dumped.target.kind,
            runs=runs,
            completions=dumped.job.completions if dumped.job is not None else None,
            cron=dumped.cron,
        )

    def notes(self) -> Iterator[str]:
        """The assumptions."""
        sources = ", ".join(
            f"{source} ({pluralize(count, 'container')})" for source, count in self._usage.sources.items()
        )
        yield f"usage is derived from {sources}"
        step = self._clock.step
        yield f"recommender and updater run every {describe_span(step)}, the resolution of usage in the dump"
        if self._shared:
            scaled = pluralize(self._shared, "workload")
            yield (
                f"pods of {scaled} with a changing replica count share the total CPU usage; each has "
                "the memory usage of one pod"
            )
        if self._assumed_runs:
            jobs = pluralize(self._assumed_runs, "CronJob")
            yield f"no run of {jobs} is known: each run is assumed to take {ASSUMED_SECONDS / 60:g} min"

    def _runs(self, dumped: DumpedWorkload) -> JobRuns:
        if dumped.job is None:
            return ()
        if dumped.cron is None:
            return find_job_run(dumped.jobs[0], self._clock, self._collected.time)
        first = dumped.containers[0] if dumped.containers else ""
        lengths = measure_run_lengths(dumped.jobs, dumped.job, self._usage.series(dumped, first))
        self._assumed_runs += not lengths
        return draw_cron_runs(dumped.times, lengths, seeded_generator(self._seed, dumped.target.namespace, dumped.name))


def _list_the_rest(collected: ClusterState, ledger: NotPlayedObjects) -> None:
    """Add to the ledger what a dump has, or should have, and the model does not simulate."""
    if collected.quotas:
        ledger.add("ResourceQuota", "not enforced in the simulation", len(collected.quotas))
    if collected.claims:
        reason = "volume topology does not constrain scheduling in the simulation"
        ledger.add("PersistentVolumeClaim", reason, len(collected.claims))
    if collected.freeze is not None:
        ledger.add("ConfigMap", "the freeze of the cluster is ignored: changes are simulated")
    about = collected.about
    if not about.everywhere and not about.all_pods:
        reason = "pods of other namespaces are not in the dump: nodes have more free capacity than in the cluster"
        ledger.add("Pod", reason, 0)
    for kind, rejected in _rejected(collected):
        ledger.add(kind, "cannot be read", rejected)
    for gap in collected.missing:
        if gap.why != NOT_SERVED:
            where = f" in {gap.where}" if gap.where else ""
            ledger.add(gap.what, f"not in the dump{where}: {gap.why}", 0)


def _rejected(collected: ClusterState) -> Iterator[tuple[str, int]]:
    played: dict[str, Snapshot[Any]] = {
        "VerticalPodAutoscaler": collected.vpas,
        "Hvpa": collected.hvpas,
        "Buffer": collected.buffers,
        "HorizontalPodAutoscaler": collected.hpas,
        "Pod": collected.pods,
        "Node": collected.nodes,
        **collected.workloads,
    }
    for kind, snapshot in played.items():
        if snapshot.rejected:
            yield kind, len(snapshot.rejected)
