"""How is written down what a pass saw? As the steps from what the pass before it saw, and the news of it.

`Sightings` makes lines of what was seen, `Sight` makes of these lines what was seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.kube.observed_workloads import ObservedCronJob, ObservedReplicationController, ObservedWorkload
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.core.model.keys import BY_NAMESPACE, Key, in_namespace
from trellis.core.model.ooms import OomKill
from trellis.core.model.recording import decode, encode
from trellis.core.model.store import Snapshot, Store
from trellis.core.model.succession import step, take
from trellis.core.recommend.seen import Kill, News, Seen

_VPA: Final = "VerticalPodAutoscaler"
_POD: Final = "Pod"
_HVPA: Final = "Hvpa"
_WORKLOADS: Final[Mapping[str, type[Any]]] = {
    "Deployment": ObservedWorkload,
    "ReplicaSet": ObservedWorkload,
    "StatefulSet": ObservedWorkload,
    "DaemonSet": ObservedWorkload,
    "Job": ObservedWorkload,
    "CronJob": ObservedCronJob,
    "ReplicationController": ObservedReplicationController,
}
_KINDS: Final[Mapping[str, type[Any]]] = {_VPA: VerticalPodAutoscaler, _POD: ObservedPod, _HVPA: Hvpa, **_WORKLOADS}


class StepLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one kind."""

    gone: tuple[Key, ...] = ()
    put: tuple[msgspec.Raw, ...] = ()


class KillLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One container killed for its memory; without bytes where nobody knows them."""

    namespace: str
    pod: str
    uid: str
    container: str
    time: float
    memory: float | None = None
    shown: ObservedPod | None = None
    old_limit: bool = False

    @classmethod
    def of(cls, kill: Kill) -> KillLine:
        """To be written."""
        what = kill.what
        memory = None if math.isnan(what.memory) else what.memory
        return cls(what.namespace, what.pod, what.uid, what.container, what.time, memory, kill.pod, what.old_limit)

    def kill(self) -> Kill:
        """As it was."""
        memory = math.nan if self.memory is None else self.memory
        what = OomKill(self.namespace, self.pod, self.uid, self.container, self.time, memory, self.old_limit)
        return Kill(what, self.shown)


class SeenLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of each kind since the line before, and the news."""

    objects: dict[str, StepLine] = {}
    vpas: tuple[Key, ...] = ()
    namespaces: tuple[str, ...] = ()
    kills: tuple[KillLine, ...] = ()


class Sightings:
    """Remembers what was written last."""

    def __init__(self) -> None:
        self._written: dict[str, Mapping[Key, Any]] = {}

    def line(self, seen: Seen) -> SeenLine:
        """What is to be written of this; nothing is written twice."""
        kinds: dict[str, Snapshot[Any]] = {_VPA: seen.vpas, _POD: seen.pods, _HVPA: seen.hvpas, **seen.workloads}
        steps = {kind: step(self._written.get(kind, {}), snapshot.objects) for kind, snapshot in kinds.items()}
        self._written = {kind: snapshot.objects for kind, snapshot in kinds.items()}
        news = seen.news
        return SeenLine(
            {
                kind: StepLine(each.gone, tuple(msgspec.Raw(encode(found)) for found in each.put))
                for kind, each in steps.items()
                if each
            },
            tuple(sorted(news.vpas)),
            tuple(sorted(news.namespaces)),
            tuple(map(KillLine.of, news.kills)),
        )


class Sight:
    """The cluster as it was seen."""

    def __init__(self) -> None:
        self._stores: dict[str, Store[Any]] = {kind: Store({BY_NAMESPACE: in_namespace}) for kind in _KINDS}

    def look(self, line: SeenLine) -> Seen:
        """What was seen when this line was written; raises `InvalidRecording`."""
        for kind, each in line.objects.items():
            take(self._stores[kind], each.gone, (decode(found, _KINDS[kind]) for found in each.put))
        return Seen(
            vpas=self._stores[_VPA].snapshot(),
            pods=self._stores[_POD].snapshot(),
            hvpas=self._stores[_HVPA].snapshot(),
            workloads={kind: self._stores[kind].snapshot() for kind in _WORKLOADS},
            news=News(frozenset(line.vpas), frozenset(line.namespaces), tuple(each.kill() for each in line.kills)),
        )
