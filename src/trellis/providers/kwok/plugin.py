"""The plug-in of the provider kwok: follows the ConfigMap of its groups."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from trellis.providers.declared.config_maps import follow_config_map
from trellis.providers.kwok.provider import KwokObjects, KwokProvider
from trellis.providers.kwok.settings import KwokSettings
from trellis.providers.plugins import ProviderContext, RunningProvider


@asynccontextmanager
async def open_kwok(context: ProviderContext) -> AsyncIterator[RunningProvider]:
    where = context.section(KwokSettings).kwok_node_groups
    yield RunningProvider(KwokProvider(follow_kwok_objects(context, where), where), context.writer)


def follow_kwok_objects(
    context: ProviderContext, where: str = KwokSettings().kwok_node_groups
) -> Callable[[], KwokObjects]:
    """Follow the ConfigMap `where`; the objects that the provider reads, as they are at each call."""
    config = follow_config_map(context, where)
    return lambda: KwokObjects(config(), context.list_nodes())
