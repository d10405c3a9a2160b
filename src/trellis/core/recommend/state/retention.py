"""Retention of usage by VPA: weeks of history, runs, and memory windows by its policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trellis.api.feature_gates import FeatureGates
from trellis.api.resolve import EffectiveContainerPolicy
from trellis.core.cluster.store import ObjectKey
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.state.tables import ServedVpa, read_shadow_names
from trellis.core.recommend.validation import needs_runs
from trellis.core.usage.model import UsageModel
from trellis.core.usage.settings import Tuning, UsageSettings
from trellis.core.usage.tracked_pods import TrackedPod


def read_tuning(container: EffectiveContainerPolicy, defaults: Tuning) -> Tuning | None:
    """The overrides of a VPA for one container, over the flags; None without any."""
    overrides = (
        container.memory_window,
        container.memory_windows,
        container.oom_bump_up_ratio,
        container.oom_min_bump_up,
    )
    if all(parameter is None for parameter in overrides):
        return None
    window, windows, ratio, bump = overrides
    return Tuning(
        memory_window=window.total_seconds() if window is not None else defaults.memory_window,
        memory_windows=windows if windows is not None else defaults.memory_windows,
        oom_bump_up_ratio=ratio.milli / 1000 if ratio is not None else defaults.oom_bump_up_ratio,
        oom_min_bump_up=bump.milli / 1000 if bump is not None else defaults.oom_min_bump_up,
    )


class UsageRetention:
    """Has the model retain what the recommenders of served VPAs need; the model is called for changes alone."""

    def __init__(self, model: UsageModel, served: Mapping[ObjectKey, ServedVpa], gates: FeatureGates) -> None:
        self._model = model
        self._served = served
        self._gates = gates
        self.with_history: frozenset[ObjectKey] = frozenset()
        self._with_runs: set[ObjectKey] = set()
        self._tuned: dict[ObjectKey, frozenset[str]] = {}

    @property
    def settings(self) -> UsageSettings:
        return self._model.settings

    def retain_for(self, recommenders: Mapping[str, Recommender]) -> None:
        """Retain history and runs for VPAs whose recommenders read them."""
        with_history = frozenset(key for key, vpa in self._served.items() if _needs_history(vpa, recommenders))
        if with_history != self.with_history:
            self.with_history = with_history
            self._model.keep_history(with_history)
        with_runs = {
            key for key, vpa in self._served.items() if any(map(needs_runs, _find_recommenders(vpa, recommenders)))
        }
        if with_runs != self._with_runs:
            self._with_runs = with_runs
            self._model.keep_runs(with_runs)

    def tune(self, pods: Sequence[TrackedPod]) -> None:
        """Let the containers of these pods count memory as their VPAs have it."""
        if not self._gates.per_vpa_config:
            return
        for key, names in group_containers_by_vpa(pods).items():
            tunings = self.read_tunings(key, names)
            tuned = frozenset(name for name, tuning in tunings.items() if tuning is not None)
            for name in sorted(tuned | self._tuned.get(key, frozenset())):
                self._model.tune(*key, name, tunings.get(name))
            if tuned:
                self._tuned[key] = tuned
            else:
                self._tuned.pop(key, None)

    def read_tunings(self, key: ObjectKey, containers: set[str]) -> dict[str, Tuning | None]:
        """The tunings of a VPA's containers; None where it sets nothing."""
        if key not in self._served or not self._gates.per_vpa_config:
            return {}
        effective = self._served[key].effective
        if not effective.containers:
            return {}
        return {name: read_tuning(effective.get_container(name), self._model.settings.tuning) for name in containers}

    def forget(self, key: ObjectKey) -> None:
        """Drop the tunings of a VPA that is no longer served."""
        self._tuned.pop(key, None)


def _needs_history(vpa: ServedVpa, recommenders: Mapping[str, Recommender]) -> bool:
    """Whether its recommender, or one of its shadows, reads weeks of history."""
    return any(recommender.needs_history for recommender in _find_recommenders(vpa, recommenders))


def group_containers_by_vpa(pods: Sequence[TrackedPod]) -> dict[ObjectKey, set[str]]:
    """The containers of each VPA."""
    containers: dict[ObjectKey, set[str]] = {}
    for pod in pods:
        containers.setdefault((pod.namespace, pod.vpa), set()).update(container.name for container in pod.containers)
    return containers


def _find_recommenders(vpa: ServedVpa, recommenders: Mapping[str, Recommender]) -> Iterator[Recommender]:
    """Its recommender and its shadows, those that there are."""
    names = (vpa.recommender, *(read_shadow_names(vpa.annotations, vpa.recommender) if vpa.annotations else ()))
    served = (recommenders.get(name) for name in names)
    yield from (recommender for recommender in served if recommender is not None)
