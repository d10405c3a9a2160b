"""Requests to the API server, as values.

Nothing here does I/O: a function takes a resource and returns the `Request` for it, so that requests can be read,
compared and tested without a network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypedDict

import msgspec

from trellis.kube.resources import Resource
from trellis.kube.write.patches import Patch

# Like kubectl and client-go: 500 pods of 5.5 KB are 2.8 MB, some 60 ms of the API server's time.
PAGE_SIZE: Final = 500

# The API server's own timeout of a request.
LIST_SECONDS: Final = 60.0

# A watch is renewed after this time, before the idle limit of a load balancer ends it.
WATCH_SECONDS: Final = 300

JSON: Final = "application/json"
_PARTIAL: Final = "application/json;as={kind};g=meta.k8s.io;v=v1,application/json"

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class Request(msgspec.Struct, frozen=True):
    """One HTTP request.

    `path` is escaped already, `query` is not. `timeout` bounds the whole exchange in seconds, for a stream to its last
    line; None leaves it to the transport.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = _NO_HEADERS
    body: bytes | None = None
    timeout: float | None = None


class Preconditions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Preconditions of a write: the object is the same one, and has not changed since."""

    uid: str = ""
    resource_version: str = ""


class ListOptions(TypedDict, total=False):
    """Selectors and version of a list."""

    label_selector: str
    field_selector: str
    resource_version: str
    resource_version_match: str


class WatchOptions(TypedDict, total=False):
    """Selectors, version and duration of a watch."""

    resource_version: str
    label_selector: str
    field_selector: str
    bookmarks: bool
    timeout_seconds: int


def build_get(resource: Resource[Any], name: str, namespace: str = "", subresource: str = "") -> Request:
    """One object, or one of its subresources."""
    return Request("GET", resource.path(namespace, name, subresource), headers=_accept(resource))


def build_list(
    resource: Resource[Any],
    namespace: str = "",
    *,
    label_selector: str = "",
    field_selector: str = "",
    limit: int = PAGE_SIZE,
    continue_from: str = "",
    resource_version: str = "",
    resource_version_match: str = "",
) -> Request:
    """One page of a list; `limit=0` asks for all of it.

    Without a version the list is the newest; `"0"` takes whatever the server has in memory and ignores the limit. A
    continue token stands for version and all, and the server refuses both together.
    """
    query = _query(
        labelSelector=label_selector,
        fieldSelector=field_selector,
        limit=str(limit) if limit else "",
        resourceVersion="" if continue_from else resource_version,
        resourceVersionMatch="" if continue_from else resource_version_match,
    ) + _query(**{"continue": continue_from})
    # The server compresses what is longer than 128 KiB, if asked: a page of pods shrinks to a tenth.
    headers = {**_accept(resource, "PartialObjectMetadataList"), "Accept-Encoding": "gzip"}
    return Request("GET", resource.path(namespace), query, headers, timeout=LIST_SECONDS)


def build_watch(
    resource: Resource[Any],
    namespace: str = "",
    *,
    resource_version: str = "",
    label_selector: str = "",
    field_selector: str = "",
    bookmarks: bool = True,
    timeout_seconds: int = WATCH_SECONDS,
) -> Request:
    """Every change after `resource_version`. A bookmark about once a minute carries the latest version.

    The server ends the stream after `timeout_seconds`, and the client half a minute later: a broken connection must not
    look like a cluster without changes.
    """
    query = _query(
        watch="true",
        allowWatchBookmarks="true" if bookmarks else "",
        resourceVersion=resource_version,
        labelSelector=label_selector,
        fieldSelector=field_selector,
        timeoutSeconds=str(timeout_seconds),
    )
    # A proxy that compresses a stream holds lines back until it has enough of them.
    headers = {**_accept(resource), "Accept-Encoding": "identity"}
    return Request("GET", resource.path(namespace), query, headers, timeout=timeout_seconds + 30.0)


def build_create(
    resource: Resource[Any],
    document: object,
    namespace: str = "",
    *,
    name: str = "",
    subresource: str = "",
    field_manager: str = "",
    dry_run: bool = False,
) -> Request:
    """Create an object, or with a name and a subresource one such as a binding or a token request."""
    query = _query(fieldManager=field_manager) + _dry_run(dry_run)
    return _build_write("POST", resource, resource.path(namespace, name, subresource), document, query)


def build_replace(
    resource: Resource[Any],
    name: str,
    document: object,
    namespace: str = "",
    *,
    field_manager: str = "",
    dry_run: bool = False,
) -> Request:
    """Replace a whole object, if it still has the version in the document."""
    query = _query(fieldManager=field_manager) + _dry_run(dry_run)
    return _build_write("PUT", resource, resource.path(namespace, name), document, query)


def build_patch(
    resource: Resource[Any],
    name: str,
    patch: Patch,
    namespace: str = "",
    *,
    subresource: str = "",
    field_manager: str = "",
    dry_run: bool = False,
) -> Request:
    """A change to one object or subresource; the patch has its content type."""
    query = _query(fieldManager=field_manager, force="true" if patch.force else "") + _dry_run(dry_run)
    headers = {**_accept(resource), "Content-Type": patch.content_type}
    return Request("PATCH", resource.path(namespace, name, subresource), query, headers, patch.body)


def build_delete(
    resource: Resource[Any],
    name: str,
    namespace: str = "",
    *,
    preconditions: Preconditions | None = None,
    grace_period_seconds: int | None = None,
    propagation: str = "",
    dry_run: bool = False,
) -> Request:
    """Delete one object if it is still the one that `preconditions` describe."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions"} | _delete_options(
        preconditions, grace_period_seconds, propagation
    )
    return _build_write("DELETE", resource, resource.path(namespace, name), options, _dry_run(dry_run))


def build_eviction(
    pods: Resource[Any],
    name: str,
    namespace: str,
    *,
    preconditions: Preconditions | None = None,
    grace_period_seconds: int | None = None,
    dry_run: bool = False,
) -> Request:
    """Evict a pod; if a disruption budget does not allow it, the response is 429."""
    eviction: dict[str, object] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    options = _delete_options(preconditions, grace_period_seconds, "")
    if options:
        eviction["deleteOptions"] = options
    return _build_write("POST", pods, pods.path(namespace, name, "eviction"), eviction, _dry_run(dry_run))


def build_raw_get(path: str, accept: str = JSON) -> Request:
    """Read a path that is no object: `/version`, `/apis`, `/readyz`."""
    return Request("GET", path, headers={"Accept": accept})


def _build_write(
    method: str, resource: Resource[Any], path: str, document: object, query: tuple[tuple[str, str], ...]
) -> Request:
    headers = {**_accept(resource), "Content-Type": JSON}
    return Request(method, path, query, headers, msgspec.json.encode(document))


def _accept(resource: Resource[Any], partial: str = "PartialObjectMetadata") -> Mapping[str, str]:
    return {"Accept": _PARTIAL.format(kind=partial) if resource.metadata_only else JSON}


def _query(**parameters: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in parameters.items() if value)


def _dry_run(dry_run: bool) -> tuple[tuple[str, str], ...]:
    return (("dryRun", "All"),) if dry_run else ()


def _delete_options(
    preconditions: Preconditions | None, grace_period_seconds: int | None, propagation: str
) -> dict[str, object]:
    options: Iterable[tuple[str, object]] = (
        ("preconditions", preconditions if preconditions != Preconditions() else None),
        ("gracePeriodSeconds", grace_period_seconds),
        ("propagationPolicy", propagation or None),
    )
    return {name: value for name, value in options if value is not None}
