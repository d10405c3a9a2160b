"""Validation rules of the Scenario: times, node groups, autoscalers, policies, variants and faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from trellis.api.kinds.hvpa import HvpaSpec
from trellis.api.kinds.kwok_node_group import GROUP_LABEL
from trellis.api.problems import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    REQUIRED,
    SUSPICIOUS,
    UNSUPPORTED,
    MapKey,
    Path,
    ValidationProblem,
    describe_supported_values,
)
from trellis.api.rules import hvpa
from trellis.api.rules.kwok_node_group import MAX_BOOT_TIME
from trellis.api.rules.scenario_workloads import WORKLOAD_RULES, require_nonzero
from trellis.api.scenario.autoscalers import HpaMetric, HpaMetricTarget, HpaSpec, PolicyHpaSpec, PolicyHvpaSpec
from trellis.api.scenario.nodes import ScenarioNodeGroup
from trellis.api.scenario.spec import PolicyForEach, PolicySpec, ScenarioIntervals, ScenarioSpec
from trellis.api.schema.fields import Rule, rule
from trellis.base.durations import parse_span
from trellis.base.names import check_dns_label, suggest_name
from trellis.base.quantities import Quantity


@rule(
    ScenarioNodeGroup,
    "name",
    "labels",
    message="the name of a node group must be a DNS label, and labels set by Trellis must not be given",
)
def group_name_is_a_label(group: ScenarioNodeGroup) -> Iterator[ValidationProblem]:
    """Nodes are called after it, and Buffers find them by it."""
    wrong = check_dns_label(group.name)
    if wrong:
        yield ValidationProblem(("name",), INVALID, wrong, group.name)
    for key in (GROUP_LABEL, "kubernetes.io/hostname"):
        if key in (group.labels or {}):
            yield ValidationProblem(
                ("labels", MapKey(key)), FORBIDDEN, "is set on each node by Trellis and must not be given"
            )


@rule(ScenarioNodeGroup, "minSize", "maxSize", "size", message="minSize, size and maxSize must ascend")
def group_sizes_are_ordered(group: ScenarioNodeGroup) -> Iterator[ValidationProblem]:
    """It begins between its bounds, and stays there."""
    least, most = group.min_size or 0, group.max_size
    if most is not None and least > most:
        yield ValidationProblem(("minSize",), INVALID, f"must not be above maxSize, which is {most}", least)
    if group.size is not None and most is not None and not least <= group.size <= most:
        yield ValidationProblem(
            ("size",), INVALID, f"must be between minSize and maxSize, {least} and {most}", group.size
        )


@rule(ScenarioNodeGroup, "cpu", "memory", message="cpu and memory of a node must be above zero")
def group_node_has_resources(group: ScenarioNodeGroup) -> Iterator[ValidationProblem]:
    """A node on which nothing fits is of no use."""
    for name, amount in (("cpu", group.cpu), ("memory", group.memory)):
        if amount is not None and not Quantity.parse(amount):
            yield ValidationProblem((name,), INVALID, "must be above zero", amount)


@rule(ScenarioNodeGroup, "bootTime", message="bootTime must be at most a day")
def group_boots_within_a_day(group: ScenarioNodeGroup) -> Iterator[ValidationProblem]:
    """A longer value is a mistake."""
    if group.boot_time is not None and parse_span(group.boot_time) > parse_span(MAX_BOOT_TIME):
        yield ValidationProblem(("bootTime",), INVALID, f"must be at most {MAX_BOOT_TIME}", group.boot_time)


NODE_RULES: tuple[Rule[Any], ...] = (
    group_name_is_a_label,
    group_sizes_are_ordered,
    group_node_has_resources,
    group_boots_within_a_day,
)


T = TypeVar("T", bound=msgspec.Struct)

_SET_PER_WORKLOAD = "is set for each workload and must not be given"


@rule(HpaMetric, "type", "resource", "containerResource", message="a metric must have the field that its type names")
def metric_source_matches_its_type(metric: HpaMetric) -> Iterator[ValidationProblem]:
    """The type says which of the others is read."""
    name, source = ("resource", metric.resource)
    if metric.type == "ContainerResource":
        name, source = ("containerResource", metric.container_resource)  # type: ignore[assignment]
    if source is None:
        yield ValidationProblem((name,), REQUIRED, f"must be given for a metric of type {metric.type}")


@rule(
    HpaMetricTarget,
    "type",
    "averageUtilization",
    "averageValue",
    message="a target must have the field that its type names",
)
def target_value_matches_its_type(target: HpaMetricTarget) -> Iterator[ValidationProblem]:
    """The type says which of the others is read."""
    if target.type == "Utilization" and target.average_utilization is None:
        yield ValidationProblem(("averageUtilization",), REQUIRED, "must be given for a target of type Utilization")
    if target.type == "AverageValue":
        if target.average_value is None:
            yield ValidationProblem(("averageValue",), REQUIRED, "must be given for a target of type AverageValue")
        elif not Quantity.parse(target.average_value):
            yield ValidationProblem(("averageValue",), INVALID, "must be above zero", target.average_value)


@rule(HpaSpec, "minReplicas", "maxReplicas", message="minReplicas must not be above maxReplicas")
def bounds_are_not_empty(spec: HpaSpec) -> Iterator[ValidationProblem]:
    """No count would do."""
    if spec.max_replicas is not None and (spec.min_replicas or 1) > spec.max_replicas:
        rule_text = f"must not be below minReplicas, which is {spec.min_replicas}"
        yield ValidationProblem(("maxReplicas",), INVALID, rule_text, spec.max_replicas)


@rule(PolicyHpaSpec, "scaleTargetRef", message="scaleTargetRef is set for each workload and must not be given")
def hpa_has_no_target(spec: PolicyHpaSpec) -> Iterator[ValidationProblem]:
    """The target is what the template is repeated for."""
    if spec.scale_target_ref is not None:
        yield ValidationProblem(("scaleTargetRef",), FORBIDDEN, _SET_PER_WORKLOAD)


@rule(PolicyHvpaSpec, "targetRef", message="targetRef is set for each workload and must not be given")
def hvpa_has_no_target(spec: PolicyHvpaSpec) -> Iterator[ValidationProblem]:
    """The target is what the template is repeated for."""
    if spec.target_ref is not None:
        yield ValidationProblem(("targetRef",), FORBIDDEN, _SET_PER_WORKLOAD)


def _inherit_rules(rules: tuple[Rule[Any], ...], struct: type[T], on: type[msgspec.Struct]) -> Iterator[Rule[Any]]:
    """The rules of a struct for one that is made from it; no CRD has to say them."""
    yield from (msgspec.structs.replace(rule_, on=struct, cel=None) for rule_ in rules if rule_.on is on)


AUTOSCALER_RULES: tuple[Rule[Any], ...] = (
    metric_source_matches_its_type,
    target_value_matches_its_type,
    bounds_are_not_empty,
    hpa_has_no_target,
    hvpa_has_no_target,
    *_inherit_rules((bounds_are_not_empty,), PolicyHpaSpec, HpaSpec),
    *_inherit_rules(hvpa.HVPA_RULES, PolicyHvpaSpec, HvpaSpec),
)


DEFAULT_STEP = "1m"
# The variant that is there without variants: requests as written.
FIXED = "fixed"
MAX_STEPS = 2_000_000
MAX_FIGURES = 200_000_000


@rule(ScenarioIntervals, "recommender", "updater", "hpa", "hvpa", "nodes", message="an interval must be longer than 0s")
def intervals_are_positive(intervals: ScenarioIntervals) -> Iterator[ValidationProblem]:
    """Nothing can be decided without end at one moment."""
    yield from require_nonzero("recommender", intervals.recommender)
    yield from require_nonzero("updater", intervals.updater)
    yield from require_nonzero("hpa", intervals.hpa)
    yield from require_nonzero("hvpa", intervals.hvpa)
    yield from require_nonzero("nodes", intervals.nodes)


@rule(PolicySpec, "targetRef", message="targetRef is set for each workload and must not be given")
def policy_has_no_target(spec: PolicySpec) -> Iterator[ValidationProblem]:
    """The target is what the template is repeated for."""
    if spec.target_ref is not None:
        yield ValidationProblem(("targetRef",), FORBIDDEN, "is set for each workload and must not be given")


@rule(PolicyForEach, "spec", "hpa", "hvpa", message="at most one of spec, hpa, hvpa may be given")
def template_has_one_kind(template: PolicyForEach) -> Iterator[ValidationProblem]:
    """An entry makes one object for each workload; two of them are two entries."""
    fields = [name for name in ("spec", "hpa", "hvpa") if getattr(template, name) is not None]
    for name in fields[1:]:
        yield ValidationProblem((name,), FORBIDDEN, f"at most one of spec, hpa, hvpa may be given, and {fields[0]} is")


@rule(
    ScenarioSpec, "duration", "step", "warmUp", message="duration must be a whole number of steps, longer than warmUp"
)
def duration_is_whole_steps(spec: ScenarioSpec) -> Iterator[ValidationProblem]:
    """Usage has a figure for every step."""
    step, duration = parse_span(spec.step or DEFAULT_STEP), parse_span(spec.duration or "0")
    if step < 1:
        yield ValidationProblem(("step",), INVALID, "must be at least 1s", spec.step)
    elif duration < step or duration % step:
        rule_text = f"must be a whole number of steps of {spec.step or DEFAULT_STEP}, at least one"
        yield ValidationProblem(("duration",), INVALID, rule_text, spec.duration)
    elif duration / step > MAX_STEPS:
        yield ValidationProblem(("duration",), INVALID, f"must be at most {MAX_STEPS} steps", spec.duration)
    if spec.warm_up is not None and parse_span(spec.warm_up) >= duration:
        yield ValidationProblem(
            ("warmUp",), INVALID, f"must be shorter than duration, which is {spec.duration}", spec.warm_up
        )


@rule(
    ScenarioSpec,
    "workloads",
    "fleet",
    "duration",
    "step",
    message="workloads or fleet must be given, with at most 2e8 values of usage",
)
def scenario_has_workloads(spec: ScenarioSpec) -> Iterator[ValidationProblem]:
    """There is something to simulate, and its usage fits into memory."""
    if not spec.workloads and spec.fleet is None:
        yield ValidationProblem((), REQUIRED, "workloads or fleet must be given")
    containers = sum(len(workload.containers or ()) for workload in spec.workloads or ())
    containers += spec.fleet.count or 0 if spec.fleet is not None else 0
    step = parse_span(spec.step or DEFAULT_STEP)
    figures = containers * parse_span(spec.duration or "0") / step if step else 0
    if figures > MAX_FIGURES:
        rule_text = f"must give at most 2e8 values of usage; {containers} containers would have {figures:.3g}"
        yield ValidationProblem(
            ("duration",), INVALID, f"{rule_text}; choose a longer step or a shorter duration", spec.duration
        )


@rule(ScenarioSpec, "workloads", message="the name of a workload must be unique in its namespace")
def workloads_are_unique(spec: ScenarioSpec) -> Iterator[ValidationProblem]:
    """Namespace, kind and name are what VPAs find a workload by."""
    names: set[tuple[str, str]] = set()
    for index, workload in enumerate(spec.workloads or ()):
        key = (workload.namespace or "default", workload.name)
        if key in names:
            rule_text = f"there is already a workload {key[0]}/{key[1]}"
            yield ValidationProblem(("workloads", index, "name"), DUPLICATE, rule_text, workload.name)
        names.add(key)


@rule(ScenarioSpec, "nodes", message="count must be given for all nodes but the last")
def node_counts_are_set(spec: ScenarioSpec) -> Iterator[ValidationProblem]:
    """What is left after the others have theirs."""
    for index, node in enumerate((spec.nodes or ())[:-1]):
        if node.count is None:
            yield ValidationProblem(("nodes", index, "count"), REQUIRED, "must be given in every entry but the last")


@rule(ScenarioSpec, "nodes", "nodeGroups", message="names of nodes and node groups must be unique")
def node_names_are_unique(spec: ScenarioSpec) -> Iterator[ValidationProblem]:
    """Nodes are called after them."""
    names = {node.name for node in spec.nodes or ()}
    for index, group in enumerate(spec.node_groups or ()):
        if group.name in names:
            yield ValidationProblem(
                ("nodeGroups", index, "name"), DUPLICATE, "is already the name of an entry of spec.nodes", group.name
            )


@rule(ScenarioSpec, "workloads", "variants", "policies", message="onlyIn must name variants of the scenario")
def workloads_are_in_variants(spec: ScenarioSpec) -> Iterator[ValidationProblem]:
    """A typo would have it nowhere."""
    names = variant_names(spec)
    for index, workload in enumerate(spec.workloads or ()):
        for place, name in enumerate(workload.only_in or ()):
            if name not in names:
                path: Path = ("workloads", index, "onlyIn", place)
                yield ValidationProblem(
                    path, UNSUPPORTED, describe_supported_values(names), name, suggestion=suggest_name(name, names)
                )


def variant_names(spec: ScenarioSpec) -> tuple[str, ...]:
    """What the variants of a scenario are called, written or not."""
    written = tuple(variant.name for variant in spec.variants or ())
    return written or (FIXED, *(policy.name for policy in spec.policies or ()))


@rule(ScenarioSpec, "variants", "policies", message="a variant must name policies of the scenario")
def variants_name_policies(spec: ScenarioSpec) -> Iterator[ValidationProblem]:
    """A typo would make a variant the same as fixed requests."""
    names = tuple(policy.name for policy in spec.policies or ())
    used: set[str] = set()
    for index, variant in enumerate(spec.variants or ()):
        used.update(variant.policies or ())
        for place, name in enumerate(variant.policies or ()):
            if name not in names:
                path: Path = ("variants", index, "policies", place)
                rule_text = describe_supported_values(names) if names else "the scenario has no policies"
                yield ValidationProblem(path, UNSUPPORTED, rule_text, name, suggestion=suggest_name(name, names))
    for index, name in enumerate(names):
        if spec.variants and name not in used:
            yield ValidationProblem(
                ("policies", index), SUSPICIOUS, f'has no effect: no variant names the policy "{name}"'
            )


@rule(ScenarioSpec, "variants", message="a variant with recommender or parameters must name a policy")
def recommenders_have_work(spec: ScenarioSpec) -> Iterator[ValidationProblem]:
    """Without a VPA no recommender runs."""
    for index, variant in enumerate(spec.variants or ()):
        if not variant.policies and (variant.recommender or variant.parameters):
            path: Path = ("variants", index)
            yield ValidationProblem(
                path, SUSPICIOUS, "recommender and parameters have no effect without policies: no workload has a VPA"
            )


@rule(ScenarioSpec, "faults", "duration", message="a fault must begin before the end of the scenario")
def faults_happen(spec: ScenarioSpec) -> Iterator[ValidationProblem]:
    """It is no error to try a shorter run."""
    end = parse_span(spec.duration or "0")
    for index, fault in enumerate(spec.faults or ()):
        if parse_span(fault.begin or "0") >= end:
            rule_text = f"is after the end of the scenario, which lasts {spec.duration}: the fault has no effect"
            yield ValidationProblem(("faults", index, "begin"), SUSPICIOUS, rule_text)


SCENARIO_RULES: tuple[Rule[Any], ...] = (
    *WORKLOAD_RULES,
    *AUTOSCALER_RULES,
    *NODE_RULES,
    node_names_are_unique,
    workloads_are_in_variants,
    intervals_are_positive,
    policy_has_no_target,
    template_has_one_kind,
    duration_is_whole_steps,
    scenario_has_workloads,
    workloads_are_unique,
    node_counts_are_set,
    variants_name_policies,
    recommenders_have_work,
    faults_happen,
)
