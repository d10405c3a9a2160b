"""Traces of reviews: one span each, below that of the API server's request if it sends one.

Without an exporter of traces the handler of reviews is used as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from trellis.base.reasons import Reason
from trellis.controllers.admission.webhook.http_requests import HttpRequest
from trellis.controllers.admission.webhook.server import HttpReply
from trellis.runtime.manager.settings import ADMISSION
from trellis.runtime.telemetry.tracing import Trace, TracedWork, belonging_to, current_trace, start_trace

_Handle = Callable[[HttpRequest], HttpReply | Awaitable[HttpReply]]


def trace_reviews(handle: _Handle) -> _Handle:
    """The handler with a span for each request."""

    def handle_traced(request: HttpRequest) -> HttpReply | Awaitable[HttpReply]:
        trace = start_trace(TracedWork.REVIEW, ADMISSION, request.traceparent.decode("latin-1"))
        with belonging_to(trace):
            reply = handle(request)
        if isinstance(reply, HttpReply):
            _end(trace, reply)
            return reply
        return _await_reply(trace, reply)

    return handle_traced


async def _await_reply(trace: Trace, pending: Awaitable[HttpReply]) -> HttpReply:
    with belonging_to(trace):
        reply = await pending
    trace.step("lookup")
    _end(trace, reply)
    return reply


def _end(trace: Trace, reply: HttpReply) -> None:
    trace.describe(http_status=reply.status)
    trace.end()


def describe_review(resource: str, reason: Reason, outcome: str, operations: int) -> None:
    """Add the result of a review to its span."""
    trace = current_trace()
    trace.describe(resource=resource, reason=reason.code, operations=operations)
    trace.complete(outcome)
