"""Lists kinds in pages across the requested namespaces: many lists at once, in a fixed order.

Requests to a busy server are retried. A list whose continue token has expired is read again in one piece, so that an
object may come twice; it is the same object.

Each list is read into a queue of its own; the queues are emptied one after the other. A list waits when it is two
pages ahead, so that a cluster of any size takes the memory of a few pages. Lists are begun in the order in which
they are emptied, so that none waits for one behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

import msgspec

from trellis.api.kube.coordination import Namespace
from trellis.api.kube.decoder import DecodedList
from trellis.base.errors import (
    Expired,
    Forbidden,
    KubeError,
    NotFound,
    ServerFault,
    Throttled,
    TrellisError,
    Unauthorized,
    Unreachable,
    UnreadableObject,
)
from trellis.base.names import suggest_name
from trellis.core.cluster import dump_format
from trellis.core.cluster.dump_format import MissingData
from trellis.kube.client import Client
from trellis.kube.flow_control import RetryBackoff
from trellis.kube.resources import NAMESPACES, Resource
from trellis.kube.transport.requests import PAGE_SIZE

T = TypeVar("T", bound=msgspec.Struct)

FORBIDDEN: Final = "may not be read"
NOT_SERVED: Final = dump_format.NOT_SERVED
UNREADABLE: Final = "could not be read"
NOT_THERE: Final = "does not exist"

_TRIES: Final = 4
_BACKOFF: Final = RetryBackoff(initial=0.5, maximum=8.0)


async def list_pages(client: Client, resource: Resource[T], namespace: str = "") -> AsyncIterator[DecodedList[T]]:
    """All pages of a list, with retries; raises the last error if every attempt fails."""
    limit, failures = PAGE_SIZE, 0
    while True:
        try:
            async for page in client.list_pages(resource, namespace, limit=limit):
                yield page
        except Expired:
            if not limit:
                raise
            limit = 0
        except (Throttled, ServerFault, Unreachable) as error:
            failures += 1
            if failures >= _TRIES:
                raise
            await asyncio.sleep(_BACKOFF.wait(failures, _draw_no_jitter, error.retry_after))
        else:
            return


def describe_error(error: TrellisError, resource: Resource[Any] | None = None) -> str:
    """A short reason why a list or an object could not be read."""
    match error:
        case Forbidden() | Unauthorized():
            return FORBIDDEN
        case NotFound() if resource is not None:
            return NOT_SERVED
        case KubeError():
            return f"{UNREADABLE}: {error.message}"
        case _:
            return f"{UNREADABLE}: {error}"


def _draw_no_jitter() -> float:
    """The jitter of a retry: none, because a single client competes with no other."""
    return 0.5


_WILD: Final = frozenset("*?[")


class CollectionScope(msgspec.Struct, frozen=True):
    """Namespaces by name or pattern, all of them if there is none.

    `own_namespace` is named if there are no patterns and namespaces may not be listed. With `all_pods`, pods of other
    namespaces are collected too, because they take capacity of the nodes.
    `node_groups` is the ConfigMap, as namespace/name, that declares node groups: with it, all objects that matter to
    the node autoscaler are collected, in all namespaces; with `nodes_only` nothing else. It is the one that the
    autoscaler's own flag names, unless it is `chosen`.
    """

    patterns: tuple[str, ...] = ()
    own_namespace: str = ""
    all_pods: bool = False
    node_groups: str = ""
    nodes_only: bool = False
    chosen: bool = False


class NamespaceScope(msgspec.Struct, frozen=True):
    """The namespaces to read. `listed` are the lists to request: the empty name for all at once, or one for each."""

    names: tuple[str, ...]
    listed: tuple[str, ...]
    objects: tuple[Namespace, ...] = ()
    missing: tuple[MissingData, ...] = ()


async def resolve_namespaces(client: Client, scope: CollectionScope) -> NamespaceScope:
    """The namespaces that match the patterns. Plain names need no right to list namespaces."""
    if scope.patterns and not any(map(_is_wild, scope.patterns)):
        return await _get_namespaces(client, tuple(dict.fromkeys(scope.patterns)))
    try:
        namespaces = [namespace async for page in list_pages(client, NAMESPACES) for namespace in page.items]
    except (KubeError, UnreadableObject) as error:
        missing = MissingData(NAMESPACES.kind, "", describe_error(error))
        names = [pattern for pattern in scope.patterns if not _is_wild(pattern)] or (
            [scope.own_namespace] if scope.own_namespace else []
        )
        # The right to list all pods does not imply the right to list namespaces.
        listed = tuple(names) if scope.patterns else ("",)
        return NamespaceScope(tuple(names), listed, (), (missing,))
    if not scope.patterns:
        return NamespaceScope(tuple(namespace.metadata.name for namespace in namespaces), ("",), tuple(namespaces))
    chosen = [
        namespace
        for namespace in namespaces
        if any(fnmatchcase(namespace.metadata.name, pattern) for pattern in scope.patterns)
    ]
    matched_names = tuple(namespace.metadata.name for namespace in chosen)
    unmatched = [pattern for pattern in scope.patterns if not any(fnmatchcase(name, pattern) for name in matched_names)]
    all_names = [namespace.metadata.name for namespace in namespaces]
    unmatched_names = tuple(
        MissingData(NAMESPACES.kind, pattern, _describe_missing(pattern, all_names)) for pattern in unmatched
    )
    return NamespaceScope(matched_names, matched_names, tuple(chosen), unmatched_names)


async def _get_namespaces(client: Client, names: tuple[str, ...]) -> NamespaceScope:
    objects: list[Namespace] = []
    missing: list[MissingData] = []
    for name in names:
        try:
            objects.append(await client.get(NAMESPACES, name))
        except (KubeError, UnreadableObject) as error:
            is_missing = getattr(error, "code", 0) == 404
            reason = (
                _describe_missing(name, await _list_namespace_names(client)) if is_missing else describe_error(error)
            )
            missing.append(MissingData(NAMESPACES.kind, name, reason))
    return NamespaceScope(names, names, tuple(objects), tuple(missing))


async def _list_namespace_names(client: Client) -> list[str]:
    """The names of all namespaces; empty if they may not be listed."""
    try:
        return [namespace.metadata.name async for page in list_pages(client, NAMESPACES) for namespace in page.items]
    except (KubeError, UnreadableObject):
        return []


def _describe_missing(name: str, existing: Sequence[str]) -> str:
    guess = None if _is_wild(name) else suggest_name(name, existing)
    return f'{NOT_THERE} (did you mean "{guess}"?)' if guess else NOT_THERE


def _is_wild(pattern: str) -> bool:
    return bool(_WILD & set(pattern))


_TOGETHER: Final = 6
_PAGES_AHEAD: Final = 2

# Takes the lines of a page, and waits while there are too many.
PutLines = Callable[[list[bytes]], Awaitable[None]]
# Reads one list, page by page.
ReadList = Callable[[PutLines], Awaitable[None]]
# How many lists have been read, and of how many.
ReportLists = Callable[[int, int], None]


async def read_in_order(lists: Sequence[ReadList], report: ReportLists) -> AsyncGenerator[bytes, None]:
    """The lines of all lists; the first error of one of them ends it."""
    together = asyncio.Semaphore(_TOGETHER)
    queues: list[asyncio.Queue[list[bytes] | None]] = [asyncio.Queue(_PAGES_AHEAD) for _ in lists]

    async def read(reads: ReadList, queue: asyncio.Queue[list[bytes] | None]) -> None:
        async with together:
            try:
                await reads(queue.put)
            except Exception:
                await queue.put(None)
                raise
            await queue.put(None)

    tasks = [asyncio.create_task(read(reads, queue)) for reads, queue in zip(lists, queues, strict=True)]
    try:
        for done, (queue, task) in enumerate(zip(queues, tasks, strict=True)):
            report(done, len(lists))
            while (page := await queue.get()) is not None:
                for line in page:
                    yield line
            await task
        report(len(lists), len(lists))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def read_in_namespaces(
    title: str, scope: NamespaceScope, read: Callable[[str], Awaitable[str]]
) -> list[MissingData]:
    """Read a kind or a source in all namespaces of a scope; `read` returns why it could not, or an empty text.

    Where listing all namespaces at once is forbidden, each is read. What is missing in all of them is reported once.
    """
    unreadable = await _find_unreadable(scope.listed, read)
    listed = scope.listed
    if listed == ("",) and unreadable.get("") == FORBIDDEN and scope.names:
        listed = scope.names
        unreadable = await _find_unreadable(listed, read)
    reasons = set(unreadable.values())
    if len(reasons) == 1 and (NOT_SERVED in reasons or len(unreadable) == len(listed) > 1):
        return [MissingData(title, "", reasons.pop())]
    return [MissingData(title, namespace, reason) for namespace, reason in unreadable.items()]


async def _find_unreadable(namespaces: Sequence[str], read: Callable[[str], Awaitable[str]]) -> dict[str, str]:
    """Reasons by namespace that could not be read. A kind that is not served in one namespace is served in none."""
    unreadable: dict[str, str] = {}
    for namespace in namespaces:
        reason = await read(namespace)
        if reason:
            unreadable[namespace] = reason
        if reason == NOT_SERVED:
            break
    return unreadable
