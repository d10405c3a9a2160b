"""Which nodes should go? The plan for fewer nodes: one function of what is in the cluster.

A node that is underused, and whose pods and chunks would find a place elsewhere, is unneeded. Once it has been for long
enough it is marked, emptied and given back, a few nodes at a time. Every node is told why it stays.

    plan = plan_down(view, memory, now, settings)

It is asked before the plan for more nodes: what waits for a node that is kept after all needs no other. Put nodes into
the snapshot as `SetTaints` leaves them, and the plan for more nodes counts on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from trellis.api.kube.policies import PodDisruptionBudget
from trellis.core.buffers.said import Said
from trellis.core.fit import Storage
from trellis.core.nodes.budgets import Budgets
from trellis.core.nodes.candidates import Candidate, Minimums, Screen
from trellis.core.nodes.down_look import DownLook
from trellis.core.nodes.down_memory import NEVER, DownMemory, Held, Removal
from trellis.core.nodes.down_notes import Notes
from trellis.core.nodes.down_settings import DownSettings
from trellis.core.nodes.down_starting import Start, Starting
from trellis.core.nodes.down_verdicts import MARK_LEFT_BEHIND, NODE_GOING, NODE_NOT_TRIED, NODE_OF_NO_GROUP, DownPlan
from trellis.core.nodes.groups import InstanceState
from trellis.core.nodes.marks import is_left_behind
from trellis.core.nodes.moves import Starts, Successors, no_boosts
from trellis.core.nodes.removing import came_meanwhile, kept, step
from trellis.core.nodes.snapshot import Snapshot
from trellis.core.nodes.standing import standing
from trellis.core.nodes.trying import Answer, Going, Question, try_out
from trellis.core.nodes.utilization import utilization

_NO_ANSWER = Answer({}, {}, frozenset())


class DownView(msgspec.Struct, frozen=True):
    """What a plan is made from.

    `seats` are those that the last plan for more nodes remembered; `starts` says with how much CPU the successor of a
    pod would start.
    """

    snapshot: Snapshot
    budgets: Sequence[PodDisruptionBudget] = ()
    storage: Storage = Storage()
    seats: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    starts: Starts = no_boosts


def plan_down(view: DownView, memory: DownMemory, now: float, settings: DownSettings) -> DownPlan:
    """The plan. The snapshot is as before afterwards."""
    return _Planning(view, memory, now, settings).plan()


class _Planning:
    """One plan while it is made up."""

    def __init__(self, view: DownView, memory: DownMemory, now: float, settings: DownSettings) -> None:
        snapshot = view.snapshot
        stands = standing(snapshot, now, settings.max_node_provision_seconds)
        used = utilization(snapshot.table, snapshot.running.used)
        self._view = view
        self._snapshot = snapshot
        self._look = DownLook(snapshot, stands, used, Budgets(view.budgets), memory, now, settings)
        self._screen = Screen(self._look)
        self._notes = Notes(self._look, max(memory.added, _last_order(snapshot, now)))

    def plan(self) -> DownPlan:
        removals = self._look.memory.removals.values()
        going = [each for removal in removals if (each := self._go_on(removal)) is not None]
        candidates = self._candidates(frozenset(each.removal.node for each in going))
        answer = self._try_out(going, candidates) if going or candidates else _NO_ANSWER
        for each in going:
            self._step(each, answer.needed.get(each.removal.node))
        self._start(candidates, answer)
        return self._notes.plan()

    def _go_on(self, removal: Removal) -> Going | None:
        """A removal that could go on; what becomes of others is clear."""
        name = removal.node
        node = self._snapshot.nodes.get(name)
        if node is None or node.metadata.uid != removal.uid:
            self._notes.gone()
            return None
        if self._look.is_going(name):
            self._notes.leave(removal, Said(NODE_GOING))
            return None
        going = Going(removal, self._snapshot.table.find(name), self._screen.tenants(name))
        if removal.released is not None:
            self._step(going, None)
            return None
        said = self._screen.why_kept(node) or going.tenants.stays or came_meanwhile(removal, going.tenants)
        if self._look.group_of(name) != removal.group:
            said = Said(NODE_OF_NO_GROUP)
        if said is not None:
            self._step(going, said)
            return None
        return going

    def _step(self, going: Going, needed: Said | None) -> None:
        name = going.removal.node
        node = self._snapshot.nodes[name]
        stepped = step(going.removal, node, going.tenants, self._look) if needed is None else kept(node, needed)
        self._notes.step(name, stepped)

    def _candidates(self, going: frozenset[str]) -> list[Candidate]:
        """The nodes to be tried, in their turn; of all others it is said why they are none."""
        found: list[Candidate] = []
        for name, node in self._snapshot.nodes.items():
            if name in going or self._notes.has(name):
                continue
            is_ours = bool(self._look.group_of(name))
            if is_left_behind(node, self._look.now, is_ours=is_ours) and not self._look.is_going(name):
                self._notes.step(name, kept(node, Said(MARK_LEFT_BEHIND)))
                continue
            looked = self._screen.look_at(name, node)
            if isinstance(looked, Candidate):
                found.append(looked)
            elif isinstance(looked, Held):
                self._notes.hold(name, looked)
            else:
                self._notes.keep(name, looked)
        return sorted(found, key=lambda each: each.turn)

    def _try_out(self, going: list[Going], candidates: list[Candidate]) -> Answer:
        # The group still counts a node that it was given back and does not show as leaving.
        released = [each for each in self._notes.removals.values() if self._look.group_of(each.node) == each.group]
        minimums = Minimums(self._snapshot.groups, [*released, *(each.removal for each in going)], candidates)
        for each in released:
            minimums.take(each.group)
        view, look = self._view, self._look
        successors = Successors(view.storage, view.starts)
        most = look.settings.max_nodes_tried
        question = Question(self._snapshot, look.stands, view.seats, successors, going, candidates, most)
        return try_out(question, minimums)

    def _start(self, candidates: list[Candidate], answer: Answer) -> None:
        look, notes = self._look, self._notes
        starting = Starting(notes, look)
        until = look.now + look.settings.unremovable_node_recheck_seconds
        for each in candidates:
            since, said = look.now if each.since is None else each.since, answer.candidates.get(each.name)
            if said is not None and said.reason is NODE_NOT_TRIED and each.since is not None:
                notes.unneeded(each.name, said, since, None)
            elif said is not None and each.name in answer.in_vain:
                notes.hold(each.name, Held(said, until))
            elif said is not None:
                notes.keep(each.name, said)
            else:
                self._begin(each, starting.decide(each, since), since, until)

    def _begin(self, candidate: Candidate, start: Start, since: float, until: float) -> None:
        name = candidate.name
        if start.removal is not None:
            self._step(Going(start.removal, candidate.number, candidate.tenants), None)
        elif start.forbidden:
            self._notes.hold(name, Held(start.said, until, since))
        else:
            self._notes.unneeded(name, start.said, since, start.look)


def _last_order(snapshot: Snapshot, now: float) -> float:
    """When the newest of the instances that are on their way was ordered: an older process may have done it."""
    since = (
        each.since
        for state in snapshot.groups.values()
        for each in state.instances
        if each.state is InstanceState.ORDERED
    )
    return min(max(since, default=NEVER), now)
