"""Traces as spans of OpenTelemetry, sent by OTLP over HTTP. Import it only once traces are exported: it is an extra.

Sampling, headers, certificates and resource attributes follow OpenTelemetry's own environment variables.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from trellis import __version__
from trellis.runtime.telemetry.tracing import CANCELLED, COMPLETED, FAILED, SKIPPED, AttributeValue, Trace, TracedWork

_PREFIX: Final = "trellis."
# What OTLP adds to the address of a collector.
_PATH: Final = "/v1/traces"
_TRACEPARENT: Final = "traceparent"
# A process ends within a second, whether the collector answers or not.
_CLOSE_SECONDS: Final = 0.3
_EXPORT_SECONDS: Final = 5.0
_CANCELLATION: Final = ("CancelledError", "GeneratorExit")


class SpanTrace(Trace):
    """A trace that becomes a span with a child for each step."""

    def __init__(self, tracer: Tracer, span: Span, began: int) -> None:
        self._tracer = tracer
        self._span = span
        self._last = began
        self._outcome = SKIPPED

    def step(self, name: str) -> None:
        now = time.time_ns()
        child = self._tracer.start_span(name, set_span_in_context(self._span), start_time=self._last)
        child.end(now)
        self._last = now

    def describe(self, **attributes: AttributeValue) -> None:
        for name, value in attributes.items():
            self._span.set_attribute(_PREFIX + name, value)

    def complete(self, outcome: str = COMPLETED) -> None:
        self._outcome = outcome

    def end(self, error: BaseException | None = None) -> None:
        if error is not None:
            is_cancelled = type(error).__name__ in _CANCELLATION
            self._outcome = CANCELLED if is_cancelled else FAILED
            if not is_cancelled:
                self._span.record_exception(error)
                self._span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
        self._span.set_attribute(f"{_PREFIX}outcome", self._outcome)
        self._span.end()


class OtlpTraceExporter:
    """Exports traces to a collector, in batches and from a thread of its own."""

    def __init__(self, endpoint: str) -> None:
        named = Resource({"service.name": "trellis", "service.version": __version__})
        provider = TracerProvider(resource=named.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint.rstrip("/") + _PATH, timeout=_EXPORT_SECONDS)
        self._processor = BatchSpanProcessor(exporter)
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("trellis", __version__)
        self._propagator = TraceContextTextMapPropagator()

    def start(self, work: TracedWork, component: str, parent: str) -> Trace:
        """A trace that begins now; `parent` is a `traceparent` of W3C, or empty."""
        began = time.time_ns()
        context = self._propagator.extract({_TRACEPARENT: parent}) if parent else None
        kind = SpanKind.SERVER if work is TracedWork.REVIEW else SpanKind.INTERNAL
        # The component is known to the sampler.
        attributes = {f"{_PREFIX}component": component}
        span = self._tracer.start_span(f"{component} {work}", context, kind, attributes, start_time=began)
        return SpanTrace(self._tracer, span, began)

    def close(self) -> None:
        """Send what is left, if that does not take long."""
        closing = threading.Thread(target=self._processor.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)
