"""The page `/config`: the settings in effect, for callers on the same host or with the right to read it.

A caller elsewhere sends a bearer token. The API server says whose it is, and whether that user may get `/config`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Final

from trellis.base.errors import Forbidden, KubeError
from trellis.kube.auth.reviews import may_get, review_token
from trellis.kube.client import Client
from trellis.runtime.telemetry.health import ProbeResponse
from trellis.runtime.telemetry.health_server import PageRequest

PATH: Final = "/config"
_YAML: Final = "application/yaml"
_SCHEME: Final = "bearer "
# A proxy beside the process calls from loopback for callers elsewhere.
_FORWARDED: Final = ("Forwarded", "X-Forwarded-For")

_FROM_ELSEWHERE: Final = (
    "the configuration is shown on loopback only: use `kubectl port-forward`, or set configPage: authenticated\n"
)
_UNKNOWN_CALLER: Final = "send a bearer token of a user or ServiceAccount that may get the path /config\n"
_REFUSED_CALLER: Final = "the API server does not accept the bearer token: it is wrong, or has expired\n"
_NO_REVIEWS: Final = (
    "this process may not ask the API server about tokens: its account needs the right to create tokenreviews and "
    "subjectaccessreviews\n"
)

# Returns the answer for a caller who may not read the page, None for one who may.
Authorize = Callable[[str], Awaitable[ProbeResponse | None]]


class ConfigurationPage:
    """Answers requests for the page. Without `authorize`, only those from loopback."""

    def __init__(self, render: Callable[[], str], authorize: Authorize | None) -> None:
        self._render = render
        self._authorize = authorize

    async def show(self, request: PageRequest) -> ProbeResponse:
        """The settings in effect, or why they are not shown."""
        refusal = None if is_local(request) else await self._refuse(request)
        return refusal or ProbeResponse(200, self._render(), _YAML)

    async def _refuse(self, request: PageRequest) -> ProbeResponse | None:
        if self._authorize is None:
            return ProbeResponse(403, _FROM_ELSEWHERE)
        header = request.headers.get("Authorization", "")
        if not header.lower().startswith(_SCHEME):
            return ProbeResponse(401, _UNKNOWN_CALLER)
        return await self._authorize(header[len(_SCHEME) :].strip())


def is_local(request: PageRequest) -> bool:
    """Whether a request comes from the same host or pod, and not through a proxy there."""
    if any(name in request.headers for name in _FORWARDED):
        return False
    try:
        address = ipaddress.ip_address(request.remote)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def authorize_with(client: Client) -> Authorize:
    """Asks the API server about a token."""

    async def authorize(token: str) -> ProbeResponse | None:
        try:
            user = await review_token(client, token)
            if user is None:
                return ProbeResponse(401, _REFUSED_CALLER)
            if await may_get(client, user, PATH):
                return None
        except Forbidden:
            return ProbeResponse(403, _NO_REVIEWS)
        except KubeError as error:
            return ProbeResponse(503, f"the API server does not answer for the token: {error}\n")
        rule = 'a ClusterRole with nonResourceURLs: ["/config"] and verbs: ["get"] would allow it'
        return ProbeResponse(403, f"{user.username} may not get the path /config: {rule}\n")

    return authorize
