"""Would the updater decide again what it decided then? What it was told is told again, in the same order.

What decides is what decided then: `Gathering`, `Memory` and `Planner`, without threads, clocks and connections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.pods import Pod
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.base.errors import InvalidRecording
from trellis.core.model.keys import Key
from trellis.core.model.recording import HEADER, decode, encode
from trellis.core.resize import recorded as lines
from trellis.core.resize.decisions import Decided
from trellis.core.resize.gathering import Gathering
from trellis.core.resize.governed import Workload
from trellis.core.resize.memory import Memory
from trellis.core.resize.planning import Planned, Planner
from trellis.core.resize.rooms import Rooms
from trellis.sim.replay.replayed import Replayed

_NULL: Final = b"null"


def replay_updater(recording: Iterable[tuple[str, msgspec.Raw]]) -> Iterator[Replayed]:
    """Every decision of a recording beside the one that is made now; raises `InvalidRecording`."""
    replay: _Replay | None = None
    for name, data in recording:
        if name == HEADER:
            continue
        kind = lines.KINDS.get(name)
        if kind is None:
            raise InvalidRecording(name, "is no line of a recording of the updater")
        line = decode(data, kind)
        if isinstance(line, lines.Began):
            replay = _Replay(line)
        elif replay is None:
            raise InvalidRecording(name, "comes before the line `began`, which says by which figures plans are made")
        elif isinstance(line, Decided):
            yield Replayed(bytes(data), encode(replay.decided(line)))
        else:
            replay.hear(line)


class _Replay:
    """An updater that only listens."""

    def __init__(self, began: lines.Began) -> None:
        settings = began.settings
        self._known = Gathering(knows_rooms=began.rooms)
        self._memory = Memory(self._known, settings)
        self._planner = Planner(settings, Rooms(must_know=settings.require_fit) if began.rooms else None)
        self._plans: list[Planned] = []
        self._pods: dict[Key, Pod] = {}
        self._workloads: dict[Workload, KubeObject] = {}
        self._hpas: dict[Key, HorizontalPodAutoscaler] = {}
        self._heard: dict[type[Any], Callable[[Any], None]] = {
            lines.PutGovernor: self._governor,
            lines.PutPod: self._pod,
            lines.PutWorkload: self._workload,
            lines.PutHpa: self._hpa,
            lines.PutLimits: lambda line: self._known.put_limits(line.namespace, line.ranges),
            lines.PutNode: lambda line: self._known.put_node(line.name, line.node),
            lines.PutNamespace: lambda line: self._known.put_namespace(line.name, line.annotations),
            lines.PutSwitch: lambda line: self._known.put_switch(line.data),
            lines.PutScales: lambda line: self._known.put_scales(dict(line.answers)),
            lines.Evicted: self._evicted,
            lines.Written: lambda line: self._known.echoes.written(line.uid, line.resource_version),
            lines.Looked: self._looked,
            lines.Counted: lambda _line: self._count(),
            lines.Ended: lambda line: self._memory.ended(line.action, line.now, done=line.done),
            lines.Carried: lambda line: self._memory.carried(line.workload, line.outcomes, line.now),
        }

    def hear(self, line: object) -> None:
        """Take in what the updater was told."""
        self._heard[type(line)](line)

    def decided(self, then: Decided) -> Decided:
        """What is decided of the last that were looked at."""
        plans, self._plans = self._plans, []
        settled = self._memory.settled(plans, sized=then.sized)
        for planned in settled:
            self._memory.decided(planned)
        return Decided.of(settled, sized=then.sized)

    def _looked(self, line: lines.Looked) -> None:
        self._plans = self._planner.plan_all(self._memory.batch(line.workloads, line.now))

    def _count(self) -> None:
        self._planner.count_rooms()

    def _governor(self, line: lines.PutGovernor) -> None:
        self._known.put_governor(line.kind, line.key, line.compiled, line.annotations)

    def _pod(self, line: lines.PutPod) -> None:
        before = self._pods.pop(line.key, None)
        self._known.put_pod(line.key, before if line.new is not None else line.old, line.new)
        if line.new is not None:
            self._pods[line.key] = line.new

    def _workload(self, line: lines.PutWorkload) -> None:
        itself = (line.key[0], line.kind, line.key[1])
        kind = lines.WORKLOAD_KINDS.get(line.kind)
        if kind is None:
            raise InvalidRecording(line.kind, "is no kind of controller that the updater watches")
        before = self._workloads.pop(itself, None)
        old, new = (decode(each, kind) if bytes(each) != _NULL else None for each in (line.old, line.new))
        self._known.put_workload(line.kind, line.key, before if new is not None else old, new)
        if new is not None:
            self._workloads[itself] = new

    def _hpa(self, line: lines.PutHpa) -> None:
        before = self._hpas.pop(line.key, None)
        self._known.put_hpa(line.key, before if line.new is not None else line.old, line.new)
        if line.new is not None:
            self._hpas[line.key] = line.new

    def _evicted(self, line: lines.Evicted) -> None:
        self._known.echoes.evicted(line.uid, math.inf if line.until is None else line.until)
