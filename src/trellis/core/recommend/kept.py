"""What is kept of usage because a VPA asks for it? Weeks of history, runs, and memory that is counted as it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trellis.api.gates import Gates
from trellis.core.model.keys import Key
from trellis.core.model.pods import FollowedPod
from trellis.core.recommend.declaration import needs_runs
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.served import ServedVpa
from trellis.core.recommend.shadows import shadows_of
from trellis.core.recommend.tuning import tuning_of
from trellis.core.usage.model import UsageModel
from trellis.core.usage.settings import Tuning


class Kept:
    """Has the model keep what is asked for, and tells it of changes alone. `served` is whoever is advised now."""

    def __init__(self, model: UsageModel, served: Mapping[Key, ServedVpa], gates: Gates) -> None:
        self._model = model
        self._served = served
        self._gates = gates
        self._with_history: set[Key] = set()
        self._with_runs: set[Key] = set()
        self._tuned: dict[Key, frozenset[str]] = {}

    def keep_for(self, recommenders: Mapping[str, Recommender]) -> None:
        """History and runs are kept for those whose recommenders look at them."""
        with_history = {key for key, vpa in self._served.items() if needs_history(vpa, recommenders)}
        if with_history != self._with_history:
            self._with_history = with_history
            self._model.keep_history(with_history)
        with_runs = {key for key, vpa in self._served.items() if any(map(needs_runs, _asked(vpa, recommenders)))}
        if with_runs != self._with_runs:
            self._with_runs = with_runs
            self._model.keep_runs(with_runs)

    def tune(self, pods: Sequence[FollowedPod]) -> None:
        """Let the containers of these pods count memory as their VPAs have it."""
        if not self._gates.per_vpa_config:
            return
        for key, names in containers_of(pods).items():
            wanted = self.tunings(key, names)
            tuned = frozenset(name for name, tuning in wanted.items() if tuning is not None)
            for name in sorted(tuned | self._tuned.get(key, frozenset())):
                self._model.tune(*key, name, wanted.get(name))
            if tuned:
                self._tuned[key] = tuned
            else:
                self._tuned.pop(key, None)

    def tunings(self, key: Key, containers: set[str]) -> dict[str, Tuning | None]:
        """How a VPA has the memory of its containers counted; None where it does not say."""
        if key not in self._served or not self._gates.per_vpa_config:
            return {}
        effective = self._served[key].effective
        if not effective.containers:
            return {}
        return {name: tuning_of(effective.container(name), self._model.settings.tuning) for name in containers}

    def forget(self, key: Key) -> None:
        """A VPA is served no longer."""
        self._tuned.pop(key, None)


def needs_history(vpa: ServedVpa, recommenders: Mapping[str, Recommender]) -> bool:
    """Whether its recommender looks back for weeks, or one of its shadows."""
    return any(recommender.needs_history for recommender in _asked(vpa, recommenders))


def containers_of(pods: Sequence[FollowedPod]) -> dict[Key, set[str]]:
    """The containers of each VPA."""
    found: dict[Key, set[str]] = {}
    for pod in pods:
        found.setdefault((pod.namespace, pod.vpa), set()).update(each.name for each in pod.containers)
    return found


def _asked(vpa: ServedVpa, recommenders: Mapping[str, Recommender]) -> Iterator[Recommender]:
    """Its recommender and its shadows, those that there are."""
    names = (vpa.recommender, *(shadows_of(vpa.annotations, vpa.recommender) if vpa.annotations else ()))
    found = (recommenders.get(name) for name in names)
    yield from (recommender for recommender in found if recommender is not None)
