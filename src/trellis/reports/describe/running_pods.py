"""Describes in sentences what the updater does to running pods, by its plan for the workload in the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trellis.api.resolve import EffectiveVpa, UpdateMode
from trellis.base.wording import RESOURCE_WORDS, pluralize
from trellis.core.explain.counterfactuals import SKIP_BUDGET_FLAG
from trellis.core.explain.update_preview import UpdatePreview, preview_updates
from trellis.core.lint.workloads import WorkloadManifest
from trellis.core.resize.disruption_budget import TOO_FEW_REPLICAS, resolve_min_replicas
from trellis.core.resize.settings import UpdateSettings
from trellis.core.sizing.governors import Governor
from trellis.reports.text.phrases import format_clause, join_words

_RESIZING = frozenset({UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE})
_CHANGES = {
    (True, True): "running pods are resized in place, and evicted if that fails",
    (True, False): "running pods are resized in place and never evicted",
    (False, True): "running pods that differ too much from them are evicted and recreated",
    (False, False): "running pods are not changed",
}

_ALLOWED = {
    (True, True): "they are resized in place, and evicted if that fails",
    (True, False): "they are resized in place",
    (False, True): "they are evicted and recreated with the recommended requests",
}


def preview_at_replica_bounds(
    governor: Governor | None,
    workload: WorkloadManifest | None,
    annotations: Mapping[str, str],
    replicas: tuple[int, int] | None,
) -> tuple[UpdatePreview, ...]:
    """The updater's plan at the fewest and at the most replicas; empty where their number is unknown."""
    if governor is None or workload is None or replicas is None or not workload.containers:
        return ()
    counts = sorted({count for count in replicas if count > 0})
    return tuple(preview_updates(governor, workload.pod_spec, count, annotations) for count in counts)


def describe_change(expected: UpdatePreview) -> str:
    """How running pods are changed."""
    return _CHANGES[expected.resized, expected.evicted]


def describe_exceptions(workload: str, expected: tuple[UpdatePreview, ...]) -> Iterator[str]:
    """Why pods of a VPA are left as they are, at the least replicas or at any, and what restarts a container."""
    fewest, most = expected[0], expected[-1]
    if not fewest.acts and fewest.held is TOO_FEW_REPLICAS:
        yield from _describe_too_few(workload, fewest, most)
    elif not fewest.acts and fewest.held is not None:
        details = f" ({fewest.details})" if fewest.details else ""
        yield f"They are not changed, because {format_clause(fewest.held.meaning)}{details}."
    yield from describe_restarts(most)


def describe_restarts(expected: UpdatePreview) -> Iterator[str]:
    """Which resizes restart a container."""
    if expected.restarting:
        resources = join_words([RESOURCE_WORDS[resource] for resource in sorted(expected.restarting)], "or")
        yield f"A resize of {resources} restarts the container, because its `resizePolicy` is RestartContainer."


def describe_minimum(vpa: EffectiveVpa) -> Iterator[str]:
    """From how many replicas on running pods are changed, where nothing is known of the workload."""
    minimum = resolve_min_replicas(vpa.min_replicas, UpdateSettings())
    if minimum > 1:
        free = f", unless the updater runs with `{SKIP_BUDGET_FLAG}`" if vpa.mode in _RESIZING else ""
        default = "" if vpa.min_replicas is not None else " (the updater's default)"
        yield f"With fewer than {minimum} running replicas{default}, running pods are not changed{free}."


def _describe_too_few(workload: str, fewest: UpdatePreview, most: UpdatePreview) -> Iterator[str]:
    count, minimum = pluralize(fewest.replicas, "replica"), pluralize(fewest.minimum, "replica")
    if most.acts:
        yield f"While {workload} has {count}, running pods are not changed: at least {minimum} must run."
    else:
        yield f"{workload} has {count}, and the updater changes running pods only if at least {minimum} run."
    if fewest.flag_mode is not None:
        mode = f"mode {fewest.flag_mode.value} and " if fewest.needs_another_mode else ""
        yield f"With {mode}the updater's `{SKIP_BUDGET_FLAG}` they are resized in place, which restarts no container."
    if fewest.allowed is not None and fewest.allowed.acts:
        yield f"With `minReplicas: {fewest.replicas}` {_ALLOWED[fewest.allowed.resized, fewest.allowed.evicted]}."
