"""How is what the updater was told written down, where somebody wants to look at its decisions again?

What is told to `Gathering` and `Memory` is written before they hear of it, on the event loop and so in its order. What
becomes of the recording is no concern of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.slices import NOTHING, Labels
from trellis.core.model.keys import Key
from trellis.core.model.owners import ScaleAnswer, TargetRef
from trellis.core.model.recording import encode
from trellis.core.resize import recorded as lines
from trellis.core.resize.actions import Action
from trellis.core.resize.attempts import Outcome
from trellis.core.resize.decisions import Decided
from trellis.core.resize.echoes import Echoes
from trellis.core.resize.gathering import Gathering
from trellis.core.resize.governed import Workload
from trellis.core.resize.memory import Memory
from trellis.core.resize.planning import Batch, Planned
from trellis.core.resize.settings import UpdateSettings
from trellis.core.sizing.governors import Governor
from trellis.runtime.recording import Recorder


class Tape:
    """Lines of the updater, one after another."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def write(self, line: msgspec.Struct) -> None:
        """Add a line."""
        self._recorder.write(lines.NAMES[type(line)], line)

    def flush(self) -> None:
        """Keep what was written so far, whatever becomes of the process."""
        self._recorder.flush()


class RecordedEchoes(Echoes):
    """What we have done, written down."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def evicted(self, uid: str, until: float = math.inf) -> None:
        """A pod was evicted, or perhaps."""
        self._tape.write(lines.Evicted(uid, None if until == math.inf else until))
        super().evicted(uid, until)

    def written(self, uid: str, resource_version: str) -> None:
        """A pod was changed."""
        self._tape.write(lines.Written(uid, resource_version))
        super().written(uid, resource_version)


class RecordedGathering(Gathering):
    """What is known, written down as it comes."""

    def __init__(self, tape: Tape, knows_rooms: bool) -> None:
        super().__init__(knows_rooms=knows_rooms)
        self.echoes = RecordedEchoes(tape)
        self._tape = tape

    def put_governor(self, kind: str, key: Key, governor: Governor | None, annotations: Labels = NOTHING) -> None:
        """An object that sizes pods."""
        self._tape.write(lines.PutGovernor.of(kind, key, governor, annotations))
        super().put_governor(kind, key, governor, annotations)

    def put_pod(self, key: Key, old: Pod | None, new: Pod | None) -> None:
        """A pod."""
        self._tape.write(lines.PutPod(key, new, old if new is None else None))
        super().put_pod(key, old, new)

    def put_workload(self, kind: str, key: Key, old: KubeObject | None, new: KubeObject | None) -> None:
        """A controller of a well-known kind."""
        self._tape.write(lines.PutWorkload(kind, key, _raw(new), _raw(old if new is None else None)))
        super().put_workload(kind, key, old, new)

    def put_limits(self, namespace: str, ranges: Iterable[LimitRange]) -> None:
        """All LimitRanges of a namespace."""
        found = tuple(ranges)
        self._tape.write(lines.PutLimits(namespace, found))
        super().put_limits(namespace, found)

    def put_node(self, name: str, node: Node | None) -> None:
        """A node."""
        self._tape.write(lines.PutNode(name, node))
        super().put_node(name, node)

    def put_namespace(self, name: str, annotations: Labels) -> None:
        """What is written on a namespace."""
        self._tape.write(lines.PutNamespace(name, annotations))
        super().put_namespace(name, annotations)

    def put_hpa(self, key: Key, old: HorizontalPodAutoscaler | None, new: HorizontalPodAutoscaler | None) -> None:
        """An HPA."""
        self._tape.write(lines.PutHpa(key, new, old if new is None else None))
        super().put_hpa(key, old, new)

    def put_switch(self, data: Mapping[str, str] | None) -> None:
        """What freezes the cluster."""
        self._tape.write(lines.PutSwitch(data))
        super().put_switch(data)

    def put_scales(self, found: Mapping[TargetRef, ScaleAnswer]) -> None:
        """All answers of scales."""
        self._tape.write(lines.PutScales(tuple(found.items())))
        super().put_scales(found)


class RecordedMemory(Memory):
    """What is remembered, written down as it comes, and with it what was decided."""

    def __init__(self, tape: Tape, gathering: Gathering, settings: UpdateSettings) -> None:
        super().__init__(gathering, settings)
        self._tape = tape

    def batch(self, workloads: Iterable[Workload], now: float) -> Batch:
        """Plans are about to be made."""
        wanted = tuple(self._gathering.plannable(workloads))
        self._tape.write(lines.Looked(wanted, now))
        return super().batch(wanted, now)

    def settled(self, plans: Iterable[Planned], *, sized: bool) -> list[Planned]:
        """Plans were made."""
        settled = super().settled(plans, sized=sized)
        self._tape.write(Decided.of(settled, sized=sized))
        self._tape.flush()
        return settled

    def ended(self, action: Action, now: float, *, done: bool) -> None:
        """An action is over."""
        self._tape.write(lines.Ended(action, now, done))
        super().ended(action, now, done=done)

    def carried(self, workload: Workload, outcomes: Iterable[Outcome], now: float) -> None:
        """A plan has been carried out."""
        found = tuple(outcomes)
        self._tape.write(lines.Carried(workload, found, now))
        super().carried(workload, found, now)


def _raw(found: KubeObject | None) -> msgspec.Raw:
    return msgspec.Raw(encode(found))
