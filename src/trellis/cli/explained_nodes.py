"""Which groups of nodes does a collection tell of, and by which figures are they decided about?"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from trellis.base.errors import InvalidInput
from trellis.controllers.nodes.down_flags import DownFlags
from trellis.controllers.nodes.up_flags import UpFlags
from trellis.core.explain import Components, KnownGroups
from trellis.core.model.collected import Collected
from trellis.providers.kwok import KwokObjects, KwokProvider
from trellis.runtime.settings import Settings, declared

S = TypeVar("S", bound=Settings)

_COMPONENT: Final = "nodes"


def known_groups(collected: Collected) -> KnownGroups:
    """The groups that a ConfigMap declares, with the nodes that they have; kwok's is the only provider so far."""
    config = collected.node_groups
    if config is None:
        return KnownGroups()
    where = f"{config.metadata.namespace}/{config.metadata.name}"
    provider = KwokProvider(lambda: KwokObjects(config, tuple(collected.nodes)), where)
    groups = asyncio.run(provider.groups(collected.time))
    problems = tuple((each.group, each.said) for each in groups.problems)
    return KnownGroups(groups.states, problems, declared=True)


def with_node_figures(components: Components, collected: Collected) -> Components:
    """The same with what the flags of the node autoscaler say; one that cannot be read stands for its default."""
    component = collected.component(_COMPONENT)
    if component is None:
        return components
    problems: list[str] = []
    up, down = _read(UpFlags(), component.flags, problems), _read(DownFlags(), component.flags, problems)
    figures = up.figures()
    return msgspec.structs.replace(
        components,
        nodes_up=figures,
        nodes_down=down.figures(figures.max_node_provision_seconds),
        expendable_below=up.expendable_pods_priority_cutoff,
        seen=tuple(dict.fromkeys((*components.seen, _COMPONENT))),
        problems=(*components.problems, *problems),
    )


def _read(settings: S, flags: Mapping[str, str], problems: list[str]) -> S:
    changed: dict[str, Any] = {}
    for each in declared(type(settings)):
        text = flags.get(each.name)
        if text is None:
            continue
        try:
            value = each.read(text)
        except InvalidInput as error:
            problems.append(f"--{each.name}: {error}")
            continue
        found = msgspec.structs.replace(settings, **{each.path[-1]: value})
        wrong = [conflict for conflict in found.conflicts() if conflict.setting == each.name]
        if wrong:
            problems.append(f"--{each.name}: {wrong[0].rule}")
        else:
            changed[each.path[-1]] = value
    return msgspec.structs.replace(settings, **changed)
