"""Compiles a scenario into a fleet, or into all problems with it.

The scenario is valid by itself: its fields and rules have been validated. The compiler finds what shows only together
with the rest: a trace that cannot be read, a target that does not exist, a parameter that a recommender does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from trellis.api.problems import DUPLICATE, INVALID, Path, ValidationProblem
from trellis.api.rules.scenario import DEFAULT_STEP
from trellis.api.scenario.spec import Scenario, ScenarioFault, ScenarioPrices, ScenarioSpec
from trellis.base.errors import InvalidInput, InvalidScenario
from trellis.base.prices import EXAMPLE_PRICES, Prices
from trellis.base.times import parse_time
from trellis.sim.fleet import Fault, Fleet, Intervals, SimulatedWorkload, SimulationClock
from trellis.sim.scenario.nodes import compile_nodes, compile_pools, find_unschedulable_pods
from trellis.sim.scenario.usage import TraceReader, UsageLayout, parse_seconds
from trellis.sim.scenario.variants import FileReader, PolicyManifests, compile_variants
from trellis.sim.scenario.workload_mix import draw_workloads
from trellis.sim.scenario.workloads import compile_workload
from trellis.sources.series.series import Series

DEFAULT_SEED = 1
DEFAULT_START = "2026-06-01T00:00:00Z"


def no_files(name: str) -> NoReturn:
    """Read no files, for scenarios that name none."""
    raise InvalidInput(name, "cannot be read here")


def no_traces(name: str, _series: str | None) -> Series:
    """Read no traces, for scenarios that name none."""
    return no_files(name)


def read_scenario(document: Mapping[str, Any]) -> Scenario:
    """Convert a document without errors. A field that is null is absent, as in any manifest."""
    return msgspec.convert(_without_nulls(document), Scenario)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(below) for name, below in value.items() if below is not None}
    return [_without_nulls(below) for below in value] if isinstance(value, list) else value


def compile_scenario(scenario: Scenario, *, traces: TraceReader = no_traces, files: FileReader = no_files) -> Fleet:
    """Compile the fleet; raises `InvalidScenario` with every problem, paths counted from the object's top."""
    spec = scenario.spec
    seed = DEFAULT_SEED if spec.seed is None else spec.seed
    clock, prices = _clock(spec), _prices(spec.prices, scenario.metadata.name)
    usage = UsageLayout(seed, traces)
    workloads = [
        compile_workload(workload, clock, seed, usage, ("workloads", number))
        for number, workload in enumerate(spec.workloads or ())
    ]
    drawn = draw_workloads(spec.fleet, seed) if spec.fleet is not None else ()
    workloads += [compile_workload(each, clock, seed, usage, ("fleet",)) for each in drawn]
    policies = PolicyManifests(workloads, files, orders_nodes=bool(spec.node_groups))
    variants = compile_variants(spec, policies)
    result = (*_workload_problems(spec, workloads), *usage.problems, *policies.problems)
    problems = [problem.with_prefix(("spec",)) for problem in result]
    if problems:
        raise InvalidScenario(scenario.metadata.name, problems)
    return Fleet(
        name=scenario.metadata.name,
        seed=seed,
        clock=clock,
        intervals=_intervals(spec),
        nodes=() if spec.node_groups and not spec.nodes else compile_nodes(spec.nodes, workloads, prices),
        pools=compile_pools(spec.node_groups, prices),
        workloads=tuple(workloads),
        variants=variants,
        faults=tuple(_fault(fault, clock) for fault in spec.faults or ()),
        prices=prices,
        scales=any(variant.scales for variant in variants),
    )


def _workload_problems(spec: ScenarioSpec, workloads: Sequence[SimulatedWorkload]) -> Iterator[ValidationProblem]:
    """Problems of workloads with the nodes and with one another."""
    written = len(spec.workloads or ())
    drawn = {(workload.namespace, workload.name) for workload in workloads[written:]}
    for number, workload in enumerate(workloads[:written]):
        if (workload.namespace, workload.name) in drawn:
            rule = f"is also the name of a workload of spec.fleet, in namespace {workload.namespace}"
            yield ValidationProblem(("workloads", number, "name"), DUPLICATE, rule, workload.name)
    for number, reason in find_unschedulable_pods(spec.nodes, spec.node_groups, workloads):
        place: Path = ("workloads", number) if number < written else ("fleet",)
        yield ValidationProblem(place, INVALID, reason, workloads[number].name)


def _clock(spec: ScenarioSpec) -> SimulationClock:
    begin = parse_time(spec.start or DEFAULT_START).timestamp()
    step, duration = parse_seconds(spec.step or DEFAULT_STEP), parse_seconds(spec.duration)
    return SimulationClock(begin, step, round(duration / step), begin + parse_seconds(spec.warm_up))


def _intervals(spec: ScenarioSpec) -> Intervals:
    if spec.intervals is None:
        return Intervals()
    intervals, default = spec.intervals, Intervals()
    return Intervals(
        recommender=parse_seconds(intervals.recommender, default.recommender),
        updater=parse_seconds(intervals.updater, default.updater),
        hpa=parse_seconds(intervals.hpa, default.hpa),
        hvpa=parse_seconds(intervals.hvpa, default.hvpa),
        nodes=parse_seconds(intervals.nodes, default.nodes),
    )


def _prices(prices: ScenarioPrices | None, scenario: str) -> Prices:
    if prices is None:
        return EXAMPLE_PRICES
    return Prices(prices.name or scenario, prices.currency or "USD", prices.core_hour or 0.0, prices.gib_hour or 0.0)


def _fault(fault: ScenarioFault, clock: SimulationClock) -> Fault:
    begin = clock.begin + parse_seconds(fault.begin)
    return Fault(fault.kind, begin, begin + parse_seconds(fault.length), fault.about or "*")
