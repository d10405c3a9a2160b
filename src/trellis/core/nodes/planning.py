"""What should be done now? Both plans of a pass, on one snapshot: that for fewer nodes, then that for more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from trellis.api.kube.policies import PodDisruptionBudget
from trellis.core.buffers.said import Said
from trellis.core.fit import Storage
from trellis.core.model.keys import Key
from trellis.core.nodes.down import DownView, plan_down
from trellis.core.nodes.down_actions import SetTaints
from trellis.core.nodes.down_memory import DownMemory
from trellis.core.nodes.down_settings import DownSettings
from trellis.core.nodes.down_verdicts import DownPlan
from trellis.core.nodes.groups import GroupState
from trellis.core.nodes.memory import UpMemory
from trellis.core.nodes.moves import Starts, no_boosts
from trellis.core.nodes.news import News
from trellis.core.nodes.observing import observe
from trellis.core.nodes.snapshot import Snapshot
from trellis.core.nodes.up import plan_up
from trellis.core.nodes.up_settings import UpSettings
from trellis.core.nodes.verdicts import BufferVerdict, UpPlan


class Memory(msgspec.Struct, frozen=True):
    """What is remembered from pass to pass. All of it may be lost with a process."""

    up: UpMemory = UpMemory()
    down: DownMemory = DownMemory()


class Question(msgspec.Struct, frozen=True):
    """What a pass is about, beside what is new in the cluster."""

    groups: Sequence[GroupState]
    budgets: Iterable[PodDisruptionBudget]
    memory: Memory
    now: float
    starts: Starts = no_boosts


class Plans(msgspec.Struct, frozen=True):
    """What to do, and what is wrong with objects that cannot be read, by kind and name."""

    up: UpPlan
    down: DownPlan
    problems: Mapping[tuple[str, Key], Said]


class Looked(msgspec.Struct, frozen=True):
    """What is true of Buffers while nothing can be ordered, and what is wrong with objects that cannot be read."""

    buffers: tuple[BufferVerdict, ...]
    problems: Mapping[tuple[str, Key], Said]


class Planning:
    """The snapshot and the figures. To be used in one thread."""

    def __init__(self, up: UpSettings, down: DownSettings, expendable_below: int) -> None:
        self._up = up
        self._down = down
        self._snapshot = Snapshot(expendable_below)
        self._storage = Storage()

    def take_in(self, news: News) -> None:
        """Have the snapshot show what is new."""
        self._storage = news.storage or self._storage
        news.put_into(self._snapshot)

    def plan(self, news: News, asked: Question) -> Plans:
        """Both plans. Nodes that are to be kept after all are there for whoever waits for one."""
        self.take_in(news)
        snapshot, memory = self._snapshot, asked.memory
        snapshot.put_groups(asked.groups)
        view = DownView(snapshot, tuple(asked.budgets), self._storage, memory.up.seats, asked.starts)
        down = plan_down(view, memory.down, asked.now, self._down)
        for each in down.actions:
            if isinstance(each, SetTaints):
                node = snapshot.nodes[each.node]
                spec = msgspec.structs.replace(node.spec, taints=each.taints)
                snapshot.put_node(each.node, msgspec.structs.replace(node, spec=spec))
        up = plan_up(snapshot, memory.up, asked.now, self._up)
        return Plans(up, down, dict(snapshot.problems))

    def look(self, news: News, memory: UpMemory, now: float) -> Looked:
        """What is true by the groups of the last plan. The next one is the same as if nobody had looked."""
        self.take_in(news)
        snapshot = self._snapshot
        arrived = snapshot.take_arrivals()
        observed = observe(snapshot, memory, now, self._up)
        snapshot.put_arrivals(arrived)
        return Looked(observed.buffers, observed.problems)
