"""Reads responses of the API server without I/O: objects, pages of lists, or an error of our tree.

An error arrives as a `Status` object; its reason and code together determine the error. A proxy or a load balancer in
between answers with anything, so a body that is no `Status` is shown, shortened.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from trellis.api.kube.decoder import DecodedList, decode_list, decode_object
from trellis.base.errors import (
    AlreadyExists,
    Conflict,
    Details,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerFault,
    Throttled,
    Unauthorized,
    UnreadableObject,
    format_value,
)
from trellis.kube.resources import Resource

T = TypeVar("T", bound=msgspec.Struct)

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

_BY_CODE: Final[Mapping[int, type[KubeError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: Throttled,
}
# Reasons that say more than their code.
_BY_REASON: Final[Mapping[str, type[KubeError]]] = {"AlreadyExists": AlreadyExists, "Expired": Expired, "Gone": Expired}


class Response(msgspec.Struct, frozen=True):
    """One HTTP response; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str] = _NO_HEADERS
    body: bytes = b""


class Status(msgspec.Struct, frozen=True):
    """metav1.Status: an error of the API server, as a response and inside a watch."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    details: Details | None = None
    code: int = 0


def read_object(response: Response, resource: Resource[T]) -> T:
    """The object that was asked for, created or changed; raises the error if it is one."""
    return read_as(response, resource.struct)


def read_as(response: Response, struct: type[T]) -> T:
    """The body as any struct; raises the error if it is one."""
    raise_for_error(response)
    return decode_object(response.body, struct)


def read_page(response: Response, resource: Resource[T]) -> DecodedList[T]:
    """A page of a list; objects that cannot be read are in its `rejected`."""
    raise_for_error(response)
    return decode_list(response.body, resource.struct)


def raise_for_error(response: Response) -> None:
    """Raise the error of a response, if it is one."""
    if not 200 <= response.status < 300:
        raise build_error(response)


def build_error(response: Response) -> KubeError:
    """The error that a response stands for."""
    status = _decode_status(response.body)
    if status is None:
        status = Status(message=f"HTTP {response.status} {_excerpt(response.body)}".rstrip(), code=response.status)
    # The header wins: a proxy in front of the server may know better how long it will be busy.
    return build_error_from_status(status, response.status, _parse_seconds(response.headers.get("retry-after", "")))


def build_error_from_status(status: Status, code: int = 0, retry_after: float | None = None) -> KubeError:
    """The error that a `Status` describes. `code` is that of HTTP, and counts if the object has none."""
    code = status.code or code
    details = status.details or Details()
    if retry_after is None and details.retry_after_seconds > 0:
        retry_after = float(details.retry_after_seconds)
    error = _BY_REASON.get(status.reason) or _BY_CODE.get(code) or (ServerFault if code >= 500 else KubeError)
    message = _compose_message(error, status, details) or f"HTTP {code}"
    return error(code, status.reason, message, details, retry_after=retry_after)


def _compose_message(error: type[KubeError], status: Status, details: Details) -> str:
    """The server's message, with fields that it leaves out: a webhook or an aggregated server may not name them."""
    if error is not Invalid:
        return status.message
    missing = [c for c in details.causes if c.message and c.message not in status.message]
    named = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in missing]
    return "; ".join(part for part in (status.message, *named) if part)


def _decode_status(body: bytes) -> Status | None:
    try:
        status = decode_object(body, Status)
    except UnreadableObject:
        return None
    return status if status.kind == "Status" else None


def _excerpt(body: bytes) -> str:
    """The beginning of a body, on one line."""
    return format_value(" ".join(body[:400].decode("utf-8", "replace").split())) if body else ""


def _parse_seconds(text: str) -> float | None:
    """The seconds of `Retry-After`. Kubernetes never sends the other form that HTTP allows, a date."""
    return float(text) if text.isascii() and text.isdigit() else None
