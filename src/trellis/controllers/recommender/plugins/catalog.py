"""Lists all recommenders, built-in and installed, with their parameters."""

from __future__ import annotations

import select
from collections.abc import Collection
from typing import Final

import msgspec

from trellis.base.reasons import Reason
from trellis.controllers.recommender.plugins.entry_points import RecommenderPlugin, find_plugins
from trellis.controllers.recommender.plugins.worker import RecommenderWorker, WorkerSettings
from trellis.core.recommend.parameters import Parameter
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.core.recommend.validation import needs_runs

_SECONDS: Final = 30.0
_NO_WORKERS: Final = "recommenders of packages run in processes of their own, which need Linux or macOS"


class CatalogEntry(msgspec.Struct, frozen=True):
    """A recommender. Without a package it comes with Trellis; a `problem` keeps it from being used."""

    name: str
    package: str = ""
    version: str = ""
    needs_history: bool = False
    parameters: tuple[Parameter, ...] = ()
    problem: str = ""
    needs_runs: bool = False


def list_recommenders(names: Collection[str] = ()) -> list[CatalogEntry]:
    """All recommenders, or those with these names; unknown names are skipped."""
    built_in = [
        CatalogEntry(
            name,
            needs_history=recommender.needs_history,
            needs_runs=needs_runs(recommender),
            parameters=recommender.parameters,
        )
        for name, recommender in create_built_in_recommenders().items()
        if not names or name in names
    ]
    built_in_names = {entry.name for entry in built_in}
    installed = [
        _load_entry(plugin, name in built_in_names, len(plugins) > 1)
        for name, plugins in find_plugins().items()
        if not names or name in names
        for plugin in plugins
    ]
    return built_in + installed


def list_names() -> list[str]:
    """The names of all recommenders; installed ones are not loaded."""
    return list(dict.fromkeys([*create_built_in_recommenders(), *find_plugins()]))


def _load_entry(plugin: RecommenderPlugin, is_built_in: bool, is_ambiguous: bool) -> CatalogEntry:
    """The entry of an installed recommender, which is loaded in a worker to find problems."""
    entry = CatalogEntry(plugin.name, plugin.package, plugin.version)
    if is_built_in:
        return msgspec.structs.replace(entry, problem="a built-in recommender has this name and is used")
    if is_ambiguous:
        return msgspec.structs.replace(entry, problem="several packages provide a recommender of this name: keep one")
    if not hasattr(select, "poll"):  # Windows
        return msgspec.structs.replace(entry, problem=_NO_WORKERS)
    worker = RecommenderWorker(plugin, WorkerSettings(start_seconds=_SECONDS), presets={}, observe=_ignore)
    try:
        worker.start().result()
        return msgspec.structs.replace(
            entry,
            needs_history=worker.needs_history,
            needs_runs=worker.needs_runs,
            parameters=worker.parameters,
            problem=worker.problem,
        )
    finally:
        worker.close()


def _ignore(_name: str, _reason: Reason) -> None:
    """Ignore a failure: the catalog has it as the problem."""
