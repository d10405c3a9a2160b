"""Reads dumps and recordings for commands, and the node groups and the flags of the node autoscaler in a dump."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from trellis.base.errors import InvalidInput, InvalidRecording
from trellis.controllers.nodes.settings import KWOK, ScaleDownFlags, ScaleUpFlags
from trellis.core.cluster.state import ClusterState
from trellis.core.explain import CollectedSettings, KnownNodeGroups
from trellis.core.explain.component_decisions.reported_groups import read_reported_groups
from trellis.providers.kwok import KwokObjects, KwokProvider
from trellis.runtime.recorder import read_recording
from trellis.runtime.settings.declarations import Settings, declared_settings


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Add the name of the file to errors about its lines."""
    try:
        yield
    except InvalidRecording as error:
        if error.value == str(path):
            raise
        raise InvalidRecording(str(path), str(error)) from error


def read_dump(dump: Path) -> ClusterState:
    """Read the cluster state of a dump; raises `InvalidRecording`."""
    with name_file_in_errors(dump):
        return ClusterState.from_dump(read_recording(dump))


S = TypeVar("S", bound=Settings)

_COMPONENT: Final = "nodes"


def read_node_groups(collected: ClusterState) -> KnownNodeGroups:
    """The groups that providers reported, and those of kwok, which a ConfigMap declares."""
    reported = read_reported_groups(collected)
    if reported is None:
        return _read_kwok_groups(collected)
    declared = _read_kwok_groups(collected) if KWOK in reported.providers else KnownNodeGroups()
    names = {state.group.name for state in reported.states}
    states = (*reported.states, *(state for state in declared.states if state.group.name not in names))
    problems = (*reported.problems, *declared.problems)
    return KnownNodeGroups(states, problems, declared=declared.declared or bool(states or problems))


def _read_kwok_groups(collected: ClusterState) -> KnownNodeGroups:
    config = collected.node_groups
    if config is None:
        return KnownNodeGroups()
    where = f"{config.metadata.namespace}/{config.metadata.name}"
    provider = KwokProvider(lambda: KwokObjects(config, tuple(collected.nodes)), where)
    groups = asyncio.run(provider.groups(collected.time))
    problems = tuple((problem.group, problem.reason) for problem in groups.problems)
    return KnownNodeGroups(groups.states, problems, declared=True)


def add_node_settings(components: CollectedSettings, collected: ClusterState) -> CollectedSettings:
    """The settings with the flags of the node autoscaler; an unreadable flag has its default."""
    component = collected.component(_COMPONENT)
    if component is None:
        return components
    problems: list[str] = []
    up, down = (
        _read_settings(ScaleUpFlags(), component.flags, problems),
        _read_settings(ScaleDownFlags(), component.flags, problems),
    )
    figures = up.figures()
    return msgspec.structs.replace(
        components,
        nodes_up=figures,
        nodes_down=down.figures(figures),
        expendable_below=up.expendable_pods_priority_cutoff,
        with_flags=tuple(dict.fromkeys((*components.with_flags, _COMPONENT))),
        problems=(*components.problems, *problems),
    )


def _read_settings(settings: S, flags: Mapping[str, str], problems: list[str]) -> S:
    changed: dict[str, Any] = {}
    for setting in declared_settings(type(settings)):
        text = flags.get(setting.name)
        if text is None:
            continue
        try:
            value = setting.read(text)
        except InvalidInput as error:
            problems.append(f"--{setting.name}: {error}")
            continue
        candidate = msgspec.structs.replace(settings, **{setting.path[-1]: value})
        wrong = [conflict for conflict in candidate.conflicts() if conflict.setting == setting.name]
        if wrong:
            problems.append(f"--{setting.name}: {wrong[0].rule}")
        else:
            changed[setting.path[-1]] = value
    return msgspec.structs.replace(settings, **changed)
