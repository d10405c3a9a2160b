"""Who answers to a name? A recommender that comes with Trellis, else one that is installed, else the default algorithm.

The last is what upstream does with whatever name it is given. What others have installed works in a process of its own.
A name that cannot be answered to is no reason not to start: its VPAs say why, and the others go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from typing import Final

from trellis.base.errors import InvalidInput
from trellis.controllers.recommender.figures import default_settings, worker_settings
from trellis.controllers.recommender.metrics import WORKER_FAILURES
from trellis.controllers.recommender.plugins import Plugin, installed_plugins
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.controllers.recommender.workers import Worker
from trellis.core.recommend.built_in import built_in_recommenders, recommenders_called
from trellis.core.recommend.presets import read_presets
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.unavailable import Unavailable
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics

_log: Final = Logger("trellis.recommender")


class Hosted:
    """The recommenders of this process, by the names they answer to."""

    def __init__(self, recommenders: Mapping[str, Recommender], workers: Sequence[Worker] = ()) -> None:
        self._recommenders = dict(recommenders)
        self._workers = tuple(workers)

    def start(self, seconds: float) -> None:
        """Start the worker processes, and wait for them for so long at most."""
        wait([worker.start() for worker in self._workers], seconds)

    def current(self) -> Mapping[str, Recommender]:
        """Who answers to each name now. Where nobody does yet, somebody stands in and says why."""
        for worker in self._workers:
            if worker.declared is not None:
                self._recommenders[worker.name] = worker
                continue
            worker.start()
            self._stand_in(worker.name, worker.why_not or f"recommender {worker.name} is still being started")
        return dict(self._recommenders)

    def close(self) -> None:
        """End the worker processes."""
        for worker in self._workers:
            worker.close()

    def _stand_in(self, name: str, why: str) -> None:
        known = self._recommenders.get(name)
        # The same one for the same reason, so that nobody has to look at its VPAs again.
        if not isinstance(known, Unavailable) or known.why != why:
            self._recommenders[name] = Unavailable(name, why)


def host(settings: RecommenderSettings, metrics: Metrics) -> Hosted:
    """Who answers to the names that this process was given; `InvalidInput` if `--set` cannot be meant."""
    names = settings.loop.recommender_name
    try:
        presets = read_presets(settings.plugins.parameters, names)
        figures = default_settings(settings)
        built_in, installed = built_in_recommenders(figures), installed_plugins()
        own = [name for name in names if name in built_in or name not in installed]
        recommenders = recommenders_called(own, figures, presets)
        workers: list[Worker] = []
        for name in names:
            if name not in own and len(installed[name]) == 1:
                workers.append(_worker(installed[name][0], settings, presets.get(name, {}), metrics))
            elif name not in own:
                recommenders[name] = Unavailable(name, _ambiguous(name, installed[name]))
            _say_who(name, name in built_in, installed.get(name, ()))
    except InvalidInput as error:
        raise InvalidInput(error.value, f"flag --set: {error.rule}") from error
    return Hosted(recommenders, workers)


def _worker(plugin: Plugin, settings: RecommenderSettings, given: Mapping[str, str], metrics: Metrics) -> Worker:
    return Worker(
        plugin,
        worker_settings(settings),
        given=given,
        observe=lambda name, reason: metrics.add(WORKER_FAILURES, 1, name, reason.code),
    )


def _ambiguous(name: str, plugins: Sequence[Plugin]) -> str:
    packages = " and ".join(map(str, plugins))
    return f"recommender {name} is installed twice, by {packages}: uninstall all but one of these packages"


def _say_who(name: str, is_built_in: bool, plugins: Sequence[Plugin]) -> None:
    if is_built_in and plugins:
        packages = ", ".join(map(str, plugins))
        _log.warning("a built-in recommender has the name of an installed one", recommender=name, unused=packages)
    elif not is_built_in and not plugins:
        _log.info(
            "no recommender of that name is installed; it is the default algorithm until its package is",
            recommender=name,
        )
    elif len(plugins) > 1:
        _log.error("a recommender is not served", recommender=name, why=_ambiguous(name, plugins))
