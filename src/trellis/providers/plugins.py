"""Providers as plug-ins: found by entry point, and loaded only if settings name them.

A package announces a provider in its `pyproject.toml`; Trellis announces its own in the same way. The object named
there is a function of a `ProviderContext` that returns an asynchronous context manager of a `RunningProvider`:

    [project.entry-points."trellis.node_providers"]
    my-cloud = "my_cloud.trellis:open_provider"

    @asynccontextmanager
    async def open_provider(context: ProviderContext) -> AsyncIterator[RunningProvider]:
        async with MyCloud(context.options["endpoint"]) as cloud:
            yield RunningProvider(MyProvider(cloud), context.writer)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from trellis.api.kube.nodes import Node
from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name
from trellis.core.nodes.node_groups import NO_OPTIONS, GroupOptions
from trellis.kube.client import Client
from trellis.kube.discovery import Served
from trellis.kube.write.writer import Writer
from trellis.providers.protocol import Provider
from trellis.runtime.informers import Informers
from trellis.runtime.settings.declarations import Settings
from trellis.runtime.telemetry.metrics import Metrics

ENTRY_POINTS: Final = "trellis.node_providers"

S = TypeVar("S", bound=Settings)


class ProviderContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider may work with.

    | field | meaning |
    |---|---|
    | `client`, `served` | the API server of the nodes, and what it serves |
    | `informers` | kinds that are followed here have synced before the first pass |
    | `list_nodes` | all nodes, from a cache |
    | `writer` | writes to that API server, while this process leads |
    | `defaults` | the autoscaler's settings that the options of a group replace |
    | `sections` | the settings of the autoscaler's own providers |
    | `options` | the settings of this provider, from `--provider-option` |
    | `read_only` | requests that change another system must not be sent |
    | `may_act` | whether this process leads |
    | `on_change` | call it when groups or instances have changed: it triggers a pass |
    """

    client: Client
    served: Served
    informers: Informers
    list_nodes: Callable[[], Collection[Node]]
    writer: Writer
    metrics: Metrics
    now: Callable[[], float]
    defaults: GroupOptions = NO_OPTIONS
    sections: Sequence[Settings] = ()
    options: Mapping[str, str] = {}
    read_only: bool = False
    may_act: Callable[[], bool] = lambda: True
    on_change: Callable[[], None] = lambda: None

    def section(self, kind: type[S]) -> S:
        """The settings of one of the autoscaler's own providers; the defaults if there are none."""
        return next((section for section in self.sections if isinstance(section, kind)), kind())


class ChangeSignal:
    """Calls the autoscaler when a provider has news. Providers are opened before the autoscaler is built."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def send(self) -> None:
        for listener in self._listeners:
            listener()


class RunningProvider(NamedTuple):
    """A provider, and the writer of the steps that it returns: that of the API server that it manages machines by."""

    provider: Provider
    writer: Writer


OpenProvider: TypeAlias = Callable[[ProviderContext], AbstractAsyncContextManager[RunningProvider]]
Options: TypeAlias = Mapping[str, Mapping[str, str]]
OpenProviders: TypeAlias = Callable[
    [Sequence[str], ProviderContext, Options], AbstractAsyncContextManager[tuple[RunningProvider, ...]]
]


@asynccontextmanager
async def open_providers(
    names: Sequence[str],
    context: ProviderContext,
    options: Options,
    announced: Iterable[EntryPoint] | None = None,
) -> AsyncIterator[tuple[RunningProvider, ...]]:
    """The providers of these names, in this order; `options` are theirs by name."""
    openers = load_providers(names, announced)
    async with AsyncExitStack() as stack:
        running = [
            await stack.enter_async_context(opener(msgspec.structs.replace(context, options=options.get(name, {}))))
            for name, opener in openers.items()
        ]
        yield tuple(running)


def load_providers(names: Iterable[str], announced: Iterable[EntryPoint] | None = None) -> dict[str, OpenProvider]:
    """Import what the entry points of these names refer to. A name that cannot be loaded is refused."""
    entries = sorted(
        entry_points(group=ENTRY_POINTS) if announced is None else announced,
        key=lambda entry: (entry.name, not entry.value.startswith("trellis."), entry.value),
    )
    by_name: dict[str, EntryPoint] = {}
    for entry in entries:
        # Trellis's own come first: another package cannot take their names.
        by_name.setdefault(entry.name, entry)
    return {name: _load(name, by_name) for name in dict.fromkeys(names)}


def _load(name: str, by_name: Mapping[str, EntryPoint]) -> OpenProvider:
    entry = by_name.get(name)
    if entry is None:
        nearest = suggest_name(name, by_name)
        hint = f"; did you mean {nearest}?" if nearest else ""
        available = ", ".join(sorted(by_name)) or "none"
        raise InvalidInput(name, f"no installed package has a node provider of this name; available: {available}{hint}")
    try:
        opener: OpenProvider = entry.load()
    except Exception as error:  # code of a package: whatever it raises, it cannot be loaded
        raise InvalidInput(name, f"the node provider {entry.value} cannot be loaded: {error!r}") from error
    if not callable(opener):
        raise InvalidInput(name, f"{entry.value} must be a function that opens a node provider")
    return opener
