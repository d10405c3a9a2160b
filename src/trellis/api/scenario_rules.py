"""What the fields of a scenario must be to one another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trellis.api.fields import Rule, rule
from trellis.api.problems import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    REQUIRED,
    SUSPICIOUS,
    UNSUPPORTED,
    Path,
    Problem,
    supported,
)
from trellis.api.scenario import PolicyForEach, PolicySpec, ScenarioIntervals, ScenarioSpec
from trellis.api.scenario_node_rules import RULES as NODE_RULES
from trellis.api.scenario_scaling_rules import RULES as SCALING_RULES
from trellis.api.scenario_workload_rules import WORKLOAD_RULES, not_zero
from trellis.base.names import nearest
from trellis.base.spans import parse_span

DEFAULT_STEP = "1m"
# The variant that is there without variants: requests as written.
FIXED = "fixed"
MAX_STEPS = 2_000_000
MAX_FIGURES = 200_000_000


@rule(ScenarioIntervals, "recommender", "updater", "hpa", "hvpa", "nodes", says="an interval is zero")
def intervals_are_positive(intervals: ScenarioIntervals) -> Iterator[Problem]:
    """Nothing can be decided without end at one moment."""
    yield from not_zero("recommender", intervals.recommender)
    yield from not_zero("updater", intervals.updater)
    yield from not_zero("hpa", intervals.hpa)
    yield from not_zero("hvpa", intervals.hvpa)
    yield from not_zero("nodes", intervals.nodes)


@rule(PolicySpec, "targetRef", says="targetRef is set for each workload and must not be given")
def policy_has_no_target(spec: PolicySpec) -> Iterator[Problem]:
    """The target is what the template is repeated for."""
    if spec.target_ref is not None:
        yield Problem(("targetRef",), FORBIDDEN, "is set for each workload and must not be given")


@rule(PolicyForEach, "spec", "hpa", "hvpa", says="more than one of spec, hpa and hvpa is given")
def one_kind_for_each(template: PolicyForEach) -> Iterator[Problem]:
    """An entry makes one object for each workload; two of them are two entries."""
    given = [name for name in ("spec", "hpa", "hvpa") if getattr(template, name) is not None]
    for name in given[1:]:
        yield Problem((name,), FORBIDDEN, f"an entry has one of spec, hpa and hvpa, and {given[0]} is given")


@rule(ScenarioSpec, "duration", "step", "warmUp", says="duration must be a whole number of steps, longer than warmUp")
def time_is_whole_steps(spec: ScenarioSpec) -> Iterator[Problem]:
    """Usage has a figure for every step."""
    step, duration = parse_span(spec.step or DEFAULT_STEP), parse_span(spec.duration or "0")
    if step < 1:
        yield Problem(("step",), INVALID, "must be at least 1s", spec.step)
    elif duration < step or duration % step:
        rule_text = f"must be a whole number of steps of {spec.step or DEFAULT_STEP}, at least one"
        yield Problem(("duration",), INVALID, rule_text, spec.duration)
    elif duration / step > MAX_STEPS:
        yield Problem(("duration",), INVALID, f"must be at most {MAX_STEPS} steps", spec.duration)
    if spec.warm_up is not None and parse_span(spec.warm_up) >= duration:
        yield Problem(("warmUp",), INVALID, f"must be shorter than duration, which is {spec.duration}", spec.warm_up)


@rule(ScenarioSpec, "workloads", "fleet", "duration", "step", says="no workloads, or more than can be held in memory")
def there_are_workloads(spec: ScenarioSpec) -> Iterator[Problem]:
    """Something must be simulated, and its usage must have room."""
    if not spec.workloads and spec.fleet is None:
        yield Problem((), REQUIRED, "workloads or fleet must be given")
    containers = sum(len(each.containers or ()) for each in spec.workloads or ())
    containers += spec.fleet.count or 0 if spec.fleet is not None else 0
    step = parse_span(spec.step or DEFAULT_STEP)
    figures = containers * parse_span(spec.duration or "0") / step if step else 0
    if figures > MAX_FIGURES:
        rule_text = f"{containers} containers would have {figures:.3g} figures of usage; there is room for 2e8"
        yield Problem(("duration",), INVALID, f"{rule_text}: take a longer step", spec.duration)


@rule(ScenarioSpec, "workloads", says="two workloads have one name")
def workloads_are_unique(spec: ScenarioSpec) -> Iterator[Problem]:
    """Namespace, kind and name are what VPAs find a workload by."""
    seen: set[tuple[str, str]] = set()
    for index, each in enumerate(spec.workloads or ()):
        key = (each.namespace or "default", each.name)
        if key in seen:
            rule_text = f"there is a workload {key[0]}/{key[1]} already"
            yield Problem(("workloads", index, "name"), DUPLICATE, rule_text, each.name)
        seen.add(key)


@rule(ScenarioSpec, "nodes", says="only the last nodes can do without a count")
def counts_of_nodes_are_known(spec: ScenarioSpec) -> Iterator[Problem]:
    """What is left after the others have theirs."""
    for index, each in enumerate((spec.nodes or ())[:-1]):
        if each.count is None:
            yield Problem(("nodes", index, "count"), REQUIRED, "only the last entry can do without")


@rule(ScenarioSpec, "nodes", "nodeGroups", says="nodes and a group of nodes have one name")
def node_names_are_unique(spec: ScenarioSpec) -> Iterator[Problem]:
    """Nodes are called after them."""
    taken = {each.name for each in spec.nodes or ()}
    for index, each in enumerate(spec.node_groups or ()):
        if each.name in taken:
            yield Problem(("nodeGroups", index, "name"), DUPLICATE, "there are nodes of this name already", each.name)


@rule(ScenarioSpec, "workloads", "variants", "policies", says="a workload is in a variant that is not there")
def workloads_are_in_variants(spec: ScenarioSpec) -> Iterator[Problem]:
    """A typo would have it nowhere."""
    names = variant_names(spec)
    for index, each in enumerate(spec.workloads or ()):
        for place, name in enumerate(each.only_in or ()):
            if name not in names:
                path: Path = ("workloads", index, "onlyIn", place)
                yield Problem(path, UNSUPPORTED, supported(names), name, suggestion=nearest(name, names))


def variant_names(spec: ScenarioSpec) -> tuple[str, ...]:
    """What the variants of a scenario are called, written or not."""
    written = tuple(each.name for each in spec.variants or ())
    return written or (FIXED, *(each.name for each in spec.policies or ()))


@rule(ScenarioSpec, "variants", "policies", says="a variant names a policy that is not there")
def variants_name_policies(spec: ScenarioSpec) -> Iterator[Problem]:
    """A typo would make a variant the same as fixed requests."""
    names = tuple(each.name for each in spec.policies or ())
    used: set[str] = set()
    for index, variant in enumerate(spec.variants or ()):
        used.update(variant.policies or ())
        for place, name in enumerate(variant.policies or ()):
            if name not in names:
                path: Path = ("variants", index, "policies", place)
                rule_text = supported(names) if names else "there are no policies"
                yield Problem(path, UNSUPPORTED, rule_text, name, suggestion=nearest(name, names))
    for index, name in enumerate(names):
        if spec.variants and name not in used:
            yield Problem(("policies", index), SUSPICIOUS, f'no variant names the policy "{name}"')


@rule(ScenarioSpec, "variants", says="a variant has a recommender or parameters and no policy")
def recommenders_have_work(spec: ScenarioSpec) -> Iterator[Problem]:
    """Without a VPA nobody asks a recommender."""
    for index, variant in enumerate(spec.variants or ()):
        if not variant.policies and (variant.recommender or variant.parameters):
            path: Path = ("variants", index)
            yield Problem(path, SUSPICIOUS, "has a recommender and no policies: no workload has a VPA")


@rule(ScenarioSpec, "faults", "duration", says="a fault begins after the end")
def faults_happen(spec: ScenarioSpec) -> Iterator[Problem]:
    """It is no error to try a shorter run."""
    end = parse_span(spec.duration or "0")
    for index, fault in enumerate(spec.faults or ()):
        if parse_span(fault.begin or "0") >= end:
            rule_text = f"never happens: the scenario ends after {spec.duration}"
            yield Problem(("faults", index, "begin"), SUSPICIOUS, rule_text)


RULES: tuple[Rule[Any], ...] = (
    *WORKLOAD_RULES,
    *SCALING_RULES,
    *NODE_RULES,
    node_names_are_unique,
    workloads_are_in_variants,
    intervals_are_positive,
    policy_has_no_target,
    one_kind_for_each,
    time_is_whole_steps,
    there_are_workloads,
    workloads_are_unique,
    counts_of_nodes_are_known,
    variants_name_policies,
    recommenders_have_work,
    faults_happen,
)
