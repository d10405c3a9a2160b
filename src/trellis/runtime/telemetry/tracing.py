"""Traces of passes, reconciles and admission reviews; nothing is traced unless an endpoint is set.

    with exporting_traces("http://collector:4318"):
        with traced(TracedWork.PASS, "updater"):
            view = build_view()
            current_trace().step("view")        # a child span: the time since the trace began, or since the last step
            execute(plan(view))
            current_trace().step("execute")

The package of OpenTelemetry is an extra, and imported once traces are exported. Until then a trace is `NOT_TRACED`,
whose methods do nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

from trellis.base.errors import InvalidInput

AttributeValue: TypeAlias = str | int | float | bool


class TracedWork(StrEnum):
    """What a span is of."""

    PASS = "pass"  # noqa: S105 - no password
    RECONCILE = "reconcile"
    REVIEW = "review"


# How a traced piece of work ended, beside the statuses of reviews.
COMPLETED: Final = "completed"
SKIPPED: Final = "skipped"
CANCELLED: Final = "cancelled"
FAILED: Final = "failed"


class Trace:
    """One piece of work. This one is not traced; that of an exporter becomes a span."""

    def step(self, name: str) -> None:
        """A step ends now, which began when the previous one ended."""

    def describe(self, **attributes: AttributeValue) -> None:
        """Add attributes to the span."""

    def complete(self, outcome: str = COMPLETED) -> None:
        """The work did what it is for; without this it counts as skipped."""

    def end(self, error: BaseException | None = None) -> None:
        """The work ends now, with an error or without."""


NOT_TRACED: Final = Trace()

_current: ContextVar[Trace] = ContextVar("trace", default=NOT_TRACED)


class TraceExporter(Protocol):
    """Starts traces, and sends them to a collector."""

    def start(self, work: TracedWork, component: str, parent: str) -> Trace:
        """A trace that begins now; `parent` is a `traceparent` of W3C, or empty."""

    def close(self) -> None:
        """Send what is left, if that does not take long."""


class _Tracing:
    """The exporter of this process, if there is one, and how many writes each component has tried."""

    exporter: TraceExporter | None = None
    writes: Counter[tuple[str, str]] = Counter()


def is_tracing() -> bool:
    """Whether traces are exported."""
    return _Tracing.exporter is not None


def current_trace() -> Trace:
    """The trace of the work that is under way in this task. A thread has none: hand the trace over."""
    return _current.get()


@contextmanager
def exporting_traces(endpoint: str) -> Iterator[None]:
    """Export traces to a collector while the context is open; nothing if the endpoint is empty."""
    if not endpoint:
        yield
        return
    try:
        from trellis.runtime.telemetry.otlp_traces import OtlpTraceExporter  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        rule = "--tracing-endpoint needs OpenTelemetry: pip install 'trellis-autoscaler[tracing]'"
        raise InvalidInput(endpoint, rule) from error
    _Tracing.exporter = OtlpTraceExporter(endpoint)
    try:
        yield
    finally:
        exporter, _Tracing.exporter = _Tracing.exporter, None
        exporter.close()
        _Tracing.writes.clear()


@contextmanager
def traced(work: TracedWork, component: str, /, **attributes: AttributeValue) -> Iterator[Trace]:
    """Trace what is done in the context."""
    if _Tracing.exporter is None:
        yield NOT_TRACED
        return
    trace = start_trace(work, component)
    trace.describe(**attributes)
    try:
        with belonging_to(trace):
            yield trace
    except BaseException as error:
        trace.end(error)
        raise
    trace.end()


def start_trace(work: TracedWork, component: str, parent: str = "") -> Trace:
    """A trace that begins now; `parent` is a `traceparent` of W3C, or empty."""
    return NOT_TRACED if _Tracing.exporter is None else _Tracing.exporter.start(work, component, parent)


@contextmanager
def belonging_to(trace: Trace) -> Iterator[None]:
    """What is done in the context belongs to the trace."""
    token = _current.set(trace)
    try:
        yield
    finally:
        _current.reset(token)


def trace_passes(
    component: str, run_pass: Callable[[], Coroutine[Any, Any, None]]
) -> Callable[[], Coroutine[Any, Any, None]]:
    """The pass of a component, traced with the number of its writes by result."""

    async def run() -> None:
        before = _Tracing.writes.copy()
        with traced(TracedWork.PASS, component) as trace:
            try:
                await run_pass()
            finally:
                _describe_writes(trace, component, before)

    return run


def count_traced_write(component: str, result: str) -> None:
    """Count a write for the trace of the pass."""
    if _Tracing.exporter is not None:
        _Tracing.writes[component, result] += 1


def _describe_writes(trace: Trace, component: str, before: Counter[tuple[str, str]]) -> None:
    for (writer, result), number in (_Tracing.writes - before).items():
        if writer == component:
            trace.describe(**{f"writes.{result.lower()}": number})
