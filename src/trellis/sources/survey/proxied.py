"""How is a Prometheus inside a cluster asked from outside? Through the API server, so that nobody forwards a port.

Who may ask it is whoever may `get` the proxy of its Service.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from trellis.base.errors import PrometheusTooMuch, Unreachable
from trellis.kube.client import Client
from trellis.kube.requests import Request
from trellis.kube.responses import Response, error_of
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.settings import PrometheusSettings

_FIRST_ERROR: Final = 400


class Place(msgspec.Struct, frozen=True):
    """A server that was found: its sort, its Service, and the path through the API server."""

    sort: str
    namespace: str
    service: str
    path: str

    def __str__(self) -> str:
        return f"{self.sort} {self.namespace}/{self.service}"


class ProxiedPrometheus(PrometheusClient):
    """A Prometheus behind the API server."""

    def __init__(self, settings: PrometheusSettings, client: Client, place: Place) -> None:
        super().__init__(
            msgspec.structs.replace(settings, prometheus_address=f"http://{place.service}.{place.namespace}")
        )
        self._through = client
        self._place = place
        # To POST through a proxy takes the right to create, which nobody gives who only wants to be looked at.
        self._method = "GET"

    async def _request(
        self, path: str, parameters: Mapping[str, str], _authorization: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        # The API server keeps credentials to itself, so that there is no use in sending those for Prometheus.
        request = Request(
            "GET",
            f"{self._place.path}{path}",
            tuple(parameters.items()),
            self._headers,
            timeout=self._seconds,
        )
        try:
            answer = await self._through.transport.send(request)
        except Unreachable as error:
            raise ConnectionError(error.message) from error
        if len(answer.body) > self._limit:
            raise PrometheusTooMuch(f"the answer of {self._place} is longer than {self._limit} bytes", answer.status)
        return answer.status, answer.headers, _said(answer)


def _said(answer: Response) -> bytes:
    """The body; where the API server itself said no, what it said, in the form in which Prometheus says it."""
    if answer.status < _FIRST_ERROR:
        return answer.body
    error = error_of(answer)
    return msgspec.json.encode({"error": error.message, "errorType": error.reason}) if error.reason else answer.body
