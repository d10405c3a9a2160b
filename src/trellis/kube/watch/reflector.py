"""The reflector: lists a kind once, then watches it, and resumes wherever the watch breaks.

| event | reaction |
|---|---|
| the watch ends in order, as it does every few minutes | watch from the last version |
| the connection breaks, or nothing is received for `QUIET_SECONDS` | wait, watch from the last version |
| nothing is received for so long, and the kind has no bookmarks | watch from the last version, at once |
| 410: the server no longer knows the version | list anew, at once |
| any other refusal of the version, or three faults in a row | wait, list anew |
| 429 | wait at least as long as `Retry-After` says |
| a list that does not get through | wait, list anew; what came of it is thrown away |
| another request is answered while it waits for a server that was away | retry soon, as after a first failure |

A reflector keeps no objects and reads no clock but the event loop's. It passes what it receives to a `Sink`.
"""

from __future__ import annotations

import asyncio
from typing import Final, Generic, Protocol

from trellis.api.kube.decoder import DecodedList
from trellis.base.errors import Expired, KubeError, ServerFault, Throttled, Unauthorized, Unreachable, UnreadableObject
from trellis.core.cluster.store import T
from trellis.kube.client import Client
from trellis.kube.flow_control import Draw, RetryBackoff
from trellis.kube.resources import Resource
from trellis.kube.transport.requests import WATCH_SECONDS
from trellis.kube.watch.selection import Selection
from trellis.kube.watch.watch_events import EventKind, WatchEvent

# Half of what client-go asks for. While a page is read it takes three times its bytes, and at 10,000 pods 4 MB less are
# worth twenty more requests per list.
PAGE_SIZE: Final = 250

# The API server sends a bookmark about once a minute. Two missed ones and some patience mean a connection that died
# without a word; asking again costs one request, believing it costs the truth.
QUIET_SECONDS: Final = 150.0

# A watch that ends sooner without having said anything is no watch: some proxies answer so, as fast as one can ask.
_SHORT_SECONDS: Final = 1.0

# Events in a row after which other tasks get their turn: 64 pods keep the event loop for about 1 ms.
_EVENTS_IN_A_ROW: Final = 64

# Faults in a row after which the requested version may be the cause, and none is requested.
_FAULTS_BEFORE_LIST: Final = 3

# What may be over for all once it is over for one; what is refused to one kind says nothing about another.
_ABOUT_THE_SERVER: Final = (Unreachable, ServerFault, Unauthorized)


class Sink(Protocol[T]):
    """Receives what a reflector reads. `at` is the event loop's time; nothing here may raise."""

    def begin_list(self) -> None:
        """A list begins; one that began before and did not end is void."""

    def add_page(self, page: DecodedList[T], at: float) -> None:
        """A part of the list."""

    async def end_list(self, resource_version: str) -> None:
        """The list is complete: what was not in it does not exist."""

    def on_watch_opened(self, at: float) -> None:
        """The server has taken the request: from here on silence means that nothing happens."""

    def apply_event(self, event: WatchEvent[T], at: float) -> None:
        """A change or a bookmark; never an error."""

    def failed(self, error: KubeError | UnreadableObject, wait: float, at: float) -> None:
        """Something went wrong, and how long it will be until the next attempt."""


class Reflector(Generic[T]):
    """Follows one selection of one kind, in all namespaces or in one, until it is cancelled."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        sink: Sink[T],
        *,
        draw: Draw,
        selection: Selection = Selection(),  # noqa: B008 - frozen
        backoff: RetryBackoff = RetryBackoff(),  # noqa: B008 - frozen
    ) -> None:
        self._client = client
        self._resource = resource
        self._sink = sink
        self._selection = selection
        self._backoff = backoff
        self._draw = draw
        self._version = ""
        self._failures = 0
        # Retries since the last success that were made because the server had answered another request.
        self._calls = 0
        self._has_expired = False
        # Events of Kubernetes have none: the API server keeps no cache of them.
        self._has_bookmarks = False
        self._page_size = PAGE_SIZE

    async def run(self) -> None:
        """Never ends by itself."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except (KubeError, UnreadableObject) as error:
                wait = self._judge(error)
                if isinstance(error, Unreachable):
                    wait = self._client.availability.shorten_wait(wait, self._draw)
                self._sink.failed(error, wait, asyncio.get_running_loop().time())
                await self._wait(wait, error)

    async def _wait(self, seconds: float, error: KubeError | UnreadableObject) -> None:
        if not isinstance(error, _ABOUT_THE_SERVER):
            await asyncio.sleep(seconds)
            return
        wake_delay = self._backoff.wait(self._calls + 1, self._draw, error.retry_after)
        if await self._client.availability.wait(seconds, wake_delay):
            # What failed before was for want of a server; what fails now counts from here.
            self._calls += 1
            self._failures = self._calls

    async def _list(self) -> None:
        clock = asyncio.get_running_loop().time
        self._sink.begin_list()
        version = ""
        try:
            async for page in self._client.list_pages(
                self._resource,
                self._selection.namespace,
                limit=self._page_size,
                label_selector=self._selection.label_selector,
                field_selector=self._selection.field_selector,
            ):
                self._sink.add_page(page, clock())
                version = page.resource_version
        except Expired:
            # The pages took longer than the server remembers; in one piece it cannot run out of memory of them.
            self._page_size = 0
            raise
        self._page_size = PAGE_SIZE
        await self._sink.end_list(version)
        self._version = version

    async def _watch(self) -> None:
        clock = asyncio.get_running_loop().time
        # Stretched, so that the watches of a program that opened them together do not end together.
        lasts = int(WATCH_SECONDS * (1 + self._draw()))
        event_count = 0
        async with self._client.watch(
            self._resource,
            resource_version=self._version,
            timeout_seconds=lasts,
            namespace=self._selection.namespace,
            label_selector=self._selection.label_selector,
            field_selector=self._selection.field_selector,
        ) as events:
            opened = renewed = clock()
            self._sink.on_watch_opened(opened)
            try:
                async with asyncio.timeout(QUIET_SECONDS) as patience:
                    async for event in events:
                        now = clock()
                        if now > renewed + 1.0:
                            renewed = now
                            patience.reschedule(now + QUIET_SECONDS)
                        self._take(event, now)
                        event_count += 1
                        if event_count % _EVENTS_IN_A_ROW == 0:
                            await asyncio.sleep(0)
            except TimeoutError as error:
                if self._has_bookmarks:
                    raise Unreachable(f"no message for {QUIET_SECONDS:g} s") from error
            finally:
                if clock() >= opened + _SHORT_SECONDS:
                    self._succeed()
        if not event_count and clock() < opened + _SHORT_SECONDS:
            raise ServerFault(0, "ShortWatch", "the watch ended at once, without a message")

    def _take(self, event: WatchEvent[T], now: float) -> None:
        if event.error is not None:
            raise event.error
        if event.kind is not EventKind.ERROR:
            self._succeed()
            self._has_bookmarks |= event.kind is EventKind.BOOKMARK
            self._version = event.resource_version or self._version
            self._sink.apply_event(event, now)

    def _succeed(self) -> None:
        self._failures, self._calls, self._has_expired = 0, 0, False

    def _judge(self, error: KubeError | UnreadableObject) -> float:
        """Note what is to be done after an error; returns how long to wait before."""
        self._failures += 1
        match error:
            case Expired() if self._version:
                # The version alone is to blame, be it after an outage: nothing speaks against asking at once, unless
                # it happens again.
                again, self._has_expired = self._has_expired, True
                self._version = ""
                if not again:
                    return 0.0
            case Unreachable() | Throttled() | Unauthorized():
                # Nothing is said about the version, and resuming is much cheaper than a list.
                pass
            case ServerFault() if self._failures < _FAULTS_BEFORE_LIST:
                pass
            case _:
                self._version = ""
        retry_after = error.retry_after if isinstance(error, KubeError) else None
        return self._backoff.wait(self._failures, self._draw, retry_after)
