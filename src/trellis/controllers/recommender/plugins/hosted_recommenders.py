"""Chooses the recommender behind each name: a built-in one, else an installed one, else the default algorithm.

The last is what upstream does with any name it is given. An installed recommender runs in a worker process. A name that
cannot be served does not keep the process from starting: its VPAs say why, and the others are served.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from typing import Final

from trellis.base.errors import InvalidInput
from trellis.controllers.recommender.metrics import WORKER_FAILURES
from trellis.controllers.recommender.plugins.entry_points import RecommenderPlugin, find_plugins
from trellis.controllers.recommender.plugins.worker import RecommenderWorker, WorkerSettings
from trellis.controllers.recommender.settings import RecommenderSettings, build_default_settings
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.registry import build_recommenders, create_built_in_recommenders, read_presets
from trellis.core.recommend.validation import UnavailableRecommender
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics


def build_worker_settings(settings: RecommenderSettings) -> WorkerSettings:
    """The limits of worker processes."""
    return WorkerSettings(
        deadline=settings.plugins.recommender_deadline.total_seconds(),
        memory=settings.plugins.recommender_memory.units,
    )


_log: Final = Logger("trellis.recommender")


class HostedRecommenders:
    """The recommenders of this process, by name."""

    def __init__(self, recommenders: Mapping[str, Recommender], workers: Sequence[RecommenderWorker] = ()) -> None:
        self._recommenders = dict(recommenders)
        self._workers = tuple(workers)

    def start(self, seconds: float) -> None:
        """Start the worker processes, and wait for them for at most `seconds`."""
        wait([worker.start() for worker in self._workers], seconds)

    def get_recommenders(self) -> Mapping[str, Recommender]:
        """The recommender of each name now. Where none runs yet, a stand-in gives the reason."""
        for worker in self._workers:
            if worker.declared is not None:
                self._recommenders[worker.name] = worker
                continue
            worker.start()
            self._set_unavailable(
                worker.name, worker.unavailable_reason or f"recommender {worker.name} is still starting"
            )
        return dict(self._recommenders)

    def close(self) -> None:
        """End the worker processes."""
        for worker in self._workers:
            worker.close()

    def _set_unavailable(self, name: str, reason: str) -> None:
        current = self._recommenders.get(name)
        # The same one for the same reason, so that its VPAs need not be evaluated again.
        if not isinstance(current, UnavailableRecommender) or current.reason != reason:
            self._recommenders[name] = UnavailableRecommender(name, reason)


def host_recommenders(settings: RecommenderSettings, metrics: Metrics) -> HostedRecommenders:
    """The recommenders with the names in the settings; `InvalidInput` if `--set` is invalid."""
    names = settings.loop.recommender_name
    try:
        presets = read_presets(settings.plugins.parameters, names)
        defaults = build_default_settings(settings)
        built_in, installed = create_built_in_recommenders(defaults), find_plugins()
        local_names = [name for name in names if name in built_in or name not in installed]
        recommenders = build_recommenders(local_names, defaults, presets)
        workers: list[RecommenderWorker] = []
        for name in names:
            if name not in local_names and len(installed[name]) == 1:
                workers.append(_create_worker(installed[name][0], settings, presets.get(name, {}), metrics))
            elif name not in local_names:
                recommenders[name] = UnavailableRecommender(name, _describe_ambiguity(name, installed[name]))
            _log_choice(name, name in built_in, installed.get(name, ()))
    except InvalidInput as error:
        raise InvalidInput(error.value, f"flag --set: {error.rule}") from error
    return HostedRecommenders(recommenders, workers)


def _create_worker(
    plugin: RecommenderPlugin, settings: RecommenderSettings, parameters: Mapping[str, str], metrics: Metrics
) -> RecommenderWorker:
    return RecommenderWorker(
        plugin,
        build_worker_settings(settings),
        presets=parameters,
        observe=lambda name, reason: metrics.add(WORKER_FAILURES, 1, name, reason.code),
    )


def _describe_ambiguity(name: str, plugins: Sequence[RecommenderPlugin]) -> str:
    packages = " and ".join(map(str, plugins))
    return f"recommender {name} is installed twice, by {packages}: uninstall all but one of these packages"


def _log_choice(name: str, is_built_in: bool, plugins: Sequence[RecommenderPlugin]) -> None:
    if is_built_in and plugins:
        packages = ", ".join(map(str, plugins))
        _log.warning("a built-in recommender has the name of an installed one", recommender=name, unused=packages)
    elif not is_built_in and not plugins:
        _log.info(
            "no recommender of that name is installed; the default algorithm is used until its package is",
            recommender=name,
        )
    elif len(plugins) > 1:
        _log.error("a recommender is unavailable", recommender=name, why=_describe_ambiguity(name, plugins))
