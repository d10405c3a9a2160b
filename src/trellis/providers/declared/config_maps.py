"""The informer of a ConfigMap with declarations."""

from __future__ import annotations

from collections.abc import Callable

from trellis.api.kube.coordination import ConfigMap
from trellis.kube.resources import CONFIG_MAPS
from trellis.providers.plugins import ProviderContext


def follow_config_map(context: ProviderContext, where: str) -> Callable[[], ConfigMap | None]:
    """Follow the ConfigMap `where`; returns what reads it, as it is at each call."""
    namespace, _, name = where.partition("/")
    informer = context.informers.follow(CONFIG_MAPS, namespaces=(namespace,), field_selector=f"metadata.name={name}")
    informer.subscribe(lambda _change: context.on_change())
    return lambda: informer.get(namespace, name)
