"""Lists kinds in pages across the requested namespaces, many lists at once and yet in one order.

A busy server is asked again. A list whose continue token has expired begins anew in one piece, so that an object may
come twice; it is the same object.

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
_BACKOFF: Final = RetryBackoff(first=0.5, most=8.0)


async def list_pages(client: Client, resource: Resource[T], namespace: str = "") -> AsyncIterator[DecodedList[T]]:
    """All there is; raises the last error of a server that is asked in vain."""
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
            await asyncio.sleep(_BACKOFF.wait(failures, _middle, error.retry_after))
        else:
            return


def describe_error(error: TrellisError, resource: Resource[Any] | None = None) -> str:
    """Why something could not be had, in a few words."""
    match error:
        case Forbidden() | Unauthorized():
            return FORBIDDEN
        case NotFound() if resource is not None:
            return NOT_SERVED
        case KubeError():
            return f"{UNREADABLE}: {error.message}"
        case _:
            return f"{UNREADABLE}: {error}"


def _middle() -> float:
    """One client alone has nobody to keep out of the way of."""
    return 0.5


_WILD: Final = frozenset("*?[")


class CollectionScope(msgspec.Struct, frozen=True):
    """Namespaces by name or pattern, all of them if there is none.

    `own` is the one that is meant where nobody says anything: all there is if the cluster does not tell which
    namespaces it has. With `all_pods`, pods of other namespaces are collected too, for what they take of the nodes.
    `node_groups` is the ConfigMap, as namespace/name, that declares groups of nodes: with it, all that decides about
    nodes is collected, wherever it is; with `nodes_alone` nothing else.
    """

    patterns: tuple[str, ...] = ()
    own: str = ""
    all_pods: bool = False
    node_groups: str = ""
    nodes_alone: bool = False


class NamespaceScope(msgspec.Struct, frozen=True):
    """Namespaces that are looked into. `asked` is how: all at once, which is the empty name, or each for itself."""

    names: tuple[str, ...]
    asked: tuple[str, ...]
    objects: tuple[Namespace, ...] = ()
    missing: tuple[MissingData, ...] = ()


async def resolve_namespaces(client: Client, wanted: CollectionScope) -> NamespaceScope:
    """Where to look. Whoever names namespaces needs no right to list them."""
    if wanted.patterns and not any(map(_is_wild, wanted.patterns)):
        return await _get_namespaces(client, tuple(dict.fromkeys(wanted.patterns)))
    try:
        found = [each async for page in list_pages(client, NAMESPACES) for each in page.items]
    except (KubeError, UnreadableObject) as error:
        missing = MissingData(NAMESPACES.kind, "", describe_error(error))
        names = [each for each in wanted.patterns if not _is_wild(each)] or ([wanted.own] if wanted.own else [])
        # Somebody may well list all pods and yet no namespaces.
        asked = tuple(names) if wanted.patterns else ("",)
        return NamespaceScope(tuple(names), asked, (), (missing,))
    if not wanted.patterns:
        return NamespaceScope(tuple(each.metadata.name for each in found), ("",), tuple(found))
    chosen = [each for each in found if any(fnmatchcase(each.metadata.name, one) for one in wanted.patterns)]
    names_ = tuple(each.metadata.name for each in chosen)
    lacking = [each for each in wanted.patterns if not any(fnmatchcase(name, each) for name in names_)]
    every = [each.metadata.name for each in found]
    missing_ = tuple(MissingData(NAMESPACES.kind, each, _does_not_exist(each, every)) for each in lacking)
    return NamespaceScope(names_, names_, tuple(chosen), missing_)


async def _get_namespaces(client: Client, names: tuple[str, ...]) -> NamespaceScope:
    objects: list[Namespace] = []
    missing: list[MissingData] = []
    for name in names:
        try:
            objects.append(await client.get(NAMESPACES, name))
        except (KubeError, UnreadableObject) as error:
            is_gone = getattr(error, "code", 0) == 404
            why = _does_not_exist(name, await _list_namespace_names(client)) if is_gone else describe_error(error)
            missing.append(MissingData(NAMESPACES.kind, name, why))
    return NamespaceScope(names, names, tuple(objects), tuple(missing))


async def _list_namespace_names(client: Client) -> list[str]:
    """The names that there are, if anybody may list them."""
    try:
        return [each.metadata.name async for page in list_pages(client, NAMESPACES) for each in page.items]
    except (KubeError, UnreadableObject):
        return []


def _does_not_exist(name: str, there: Sequence[str]) -> str:
    guess = None if _is_wild(name) else suggest_name(name, there)
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


async def read_in_order(lists: Sequence[ReadList], tell: ReportLists) -> AsyncGenerator[bytes, None]:
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
            tell(done, len(lists))
            while (page := await queue.get()) is not None:
                for line in page:
                    yield line
            await task
        tell(len(lists), len(lists))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def read_in_namespaces(
    what: str, places: NamespaceScope, read: Callable[[str], Awaitable[str]]
) -> list[MissingData]:
    """Read something wherever it is wanted; `read` says why it could not, or nothing.

    What may not be read everywhere at once is tried in each namespace. What is missing in all of them is said once.
    """
    hidden = await _find_unreadable(places.asked, read)
    asked = places.asked
    if asked == ("",) and hidden.get("") == FORBIDDEN and places.names:
        asked = places.names
        hidden = await _find_unreadable(asked, read)
    whys = set(hidden.values())
    if len(whys) == 1 and (NOT_SERVED in whys or len(hidden) == len(asked) > 1):
        return [MissingData(what, "", whys.pop())]
    return [MissingData(what, place, why) for place, why in hidden.items()]


async def _find_unreadable(asked: Sequence[str], read: Callable[[str], Awaitable[str]]) -> dict[str, str]:
    """Where it could not be read, and why. What is not served in one place is served in none."""
    hidden: dict[str, str] = {}
    for place in asked:
        why = await read(place)
        if why:
            hidden[place] = why
        if why == NOT_SERVED:
            break
    return hidden
