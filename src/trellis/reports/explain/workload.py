"""Describes a workload in sentences: what sizes its pods, what decides their number, and its spare capacity."""

from __future__ import annotations

from collections.abc import Iterator

from trellis.base.wording import pluralize
from trellis.core.explain.explanation.workload import TemplateContainerPart, WorkloadPart
from trellis.reports.explain.buffer import summary_lines as summarize_buffer
from trellis.reports.text.phrases import join_words
from trellis.reports.text.quantities import format_quantities


def origin_lines(workload: WorkloadPart) -> Iterator[str]:
    """That another object was asked about, if so."""
    if workload.asked:
        yield f"{workload.asked} belongs to {workload.kind} {workload.name}, which is explained here."


def ungoverned_lines(workload: WorkloadPart, *, governed: bool) -> Iterator[str]:
    """That nothing sizes the pods, and which VPAs target the workload without effect."""
    if not governed:
        yield "Size: no VerticalPodAutoscaler and no Hvpa governs its pods, which keep the requests of their template."
    if workload.idle_vpas:
        verbs = "target it, and govern" if len(workload.idle_vpas) > 1 else "targets it, and governs"
        yield f"{join_words(workload.idle_vpas)} also {verbs} none of its pods."


def count_lines(workload: WorkloadPart) -> Iterator[str]:
    """How many pods there are to be, and what decides it."""
    counted = join_words(workload.counted_by)
    if workload.replicas is None:
        yield f"Count: a {workload.kind} has no replica count."
        return
    ready = f", {pluralize(workload.ready, 'pod')} ready" if workload.ready is not None else ""
    replicas = f"Count: {pluralize(workload.replicas, 'replica')}{ready}"
    if counted:
        yield f"{replicas}. {counted} {'decide' if len(workload.counted_by) > 1 else 'decides'} the count."
    elif workload.kind == "DaemonSet":
        yield f"{replicas}: one for each node that fits."
    else:
        yield f"{replicas}. No HPA and no Hvpa changes the count."


def capacity_lines(workload: WorkloadPart, now: str) -> Iterator[str]:
    """The spare capacity that Buffers ask for."""
    if not workload.buffers:
        yield "Spare capacity: no Buffer."
    for buffer in workload.buffers:
        first, *others = summarize_buffer(buffer, now)
        yield f"Spare capacity: Buffer {buffer.name}. {first}"
        yield from others


def container_lines(workload: WorkloadPart, vpa: str) -> Iterator[str]:
    """The containers of the template, beside what is recommended for them."""
    yield from map(_describe_container, workload.containers)
    if vpa:
        yield f"`trellis explain recommendation/{vpa}` shows each step of the recommendation."


def _describe_container(container: TemplateContainerPart) -> str:
    requests = format_quantities(container.requests) or "nothing"
    limits = f", limits {format_quantities(container.limits)}" if container.limits else ""
    recommended = f"; recommended: {format_quantities(container.recommended)}" if container.recommended else ""
    return f"{container.container} requests {requests}{limits}{recommended}."
