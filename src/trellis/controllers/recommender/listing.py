"""Which recommenders can be had, and what can be set of each? Those of Trellis, and all that are installed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from trellis.base.reason import Reason
from trellis.controllers.recommender.plugins import Plugin, installed_plugins
from trellis.controllers.recommender.workers import Worker, WorkerSettings
from trellis.core.recommend.built_in import built_in_recommenders
from trellis.core.recommend.declaration import needs_runs
from trellis.core.recommend.parameters import Parameter

_SECONDS: Final = 30.0


class Listed(msgspec.Struct, frozen=True):
    """One recommender. Without a package it comes with Trellis; `problem` is why it cannot be used."""

    name: str
    package: str = ""
    version: str = ""
    needs_history: bool = False
    parameters: tuple[Parameter, ...] = ()
    problem: str = ""
    needs_runs: bool = False


def list_recommenders(names: Collection[str] = ()) -> list[Listed]:
    """All of them, or those of some names; a name that nobody has is left out."""
    built_in = [
        Listed(name, needs_history=each.needs_history, needs_runs=needs_runs(each), parameters=each.parameters)
        for name, each in built_in_recommenders().items()
        if not names or name in names
    ]
    taken = {each.name for each in built_in}
    installed = [
        _tried(plugin, name in taken, len(plugins) > 1)
        for name, plugins in installed_plugins().items()
        if not names or name in names
        for plugin in plugins
    ]
    return built_in + installed


def known_names() -> list[str]:
    """What they are called, without a look at those that are installed."""
    return list(dict.fromkeys([*built_in_recommenders(), *installed_plugins()]))


def _tried(plugin: Plugin, is_built_in: bool, is_ambiguous: bool) -> Listed:
    """An installed recommender, loaded in a worker to see whether it can be."""
    about = Listed(plugin.name, plugin.package, plugin.version)
    if is_built_in:
        return msgspec.structs.replace(about, problem="a recommender of this name comes with Trellis and is used")
    if is_ambiguous:
        return msgspec.structs.replace(about, problem="several packages have a recommender of this name: keep one")
    worker = Worker(plugin, WorkerSettings(start_seconds=_SECONDS), given={}, observe=_ignore)
    try:
        worker.start().result()
        return msgspec.structs.replace(
            about,
            needs_history=worker.needs_history,
            needs_runs=worker.needs_runs,
            parameters=worker.parameters,
            problem=worker.problem,
        )
    finally:
        worker.close()


def _ignore(_name: str, _reason: Reason) -> None:
    """The list says it."""
