"""A collector of OpenTelemetry on 127.0.0.1 that keeps the spans it is sent by OTLP over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class CollectedSpan(msgspec.Struct, frozen=True):
    """A span as it was sent; identifiers are in hexadecimal, `parent` is empty for the first of a trace."""

    name: str
    trace: str
    identifier: str
    parent: str
    began: int
    ended: int
    attributes: dict[str, Any]
    is_error: bool
    resource: dict[str, Any]


class Collector:
    """The spans that came so far, and the paths of the requests that brought them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[CollectedSpan] = []
        self.paths: list[str] = []

    def named(self, name: str) -> list[CollectedSpan]:
        return [span for span in self.spans if span.name == name]

    def children(self, parent: CollectedSpan) -> list[CollectedSpan]:
        """The children of a span, by when they began."""
        found = [span for span in self.spans if span.parent == parent.identifier]
        return sorted(found, key=lambda span: (span.began, span.ended))

    def take(self, path: str, body: bytes) -> None:
        self.paths.append(path)
        for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _read_attributes(sent.resource.attributes)
            for scope in sent.scope_spans:
                self.spans += [_read_span(span, resource) for span in scope.spans]


def _read_span(span: Any, resource: dict[str, Any]) -> CollectedSpan:
    return CollectedSpan(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _read_attributes(span.attributes),
        span.status.code == span.status.STATUS_CODE_ERROR,
        resource,
    )


def _read_attributes(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector while the context is open."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None:
            """Nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
