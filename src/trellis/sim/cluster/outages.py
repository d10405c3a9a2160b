"""What follows when a node is off?

Its containers stop at once and its pods are not Ready. After five minutes they are lost, and made anew elsewhere; if
the node is back before, they start again where they are.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from trellis.core.nodes.pods import is_fixed
from trellis.sim.cluster.ending import Ending
from trellis.sim.cluster.making import Making
from trellis.sim.cluster.state import State
from trellis.sim.faults import NODE_DOWN, concerns
from trellis.sim.fleet import Fault
from trellis.sim.kernel import Priority

_LOST_AFTER: Final = 300.0


class Outages:
    """Turns nodes off and on as the faults say."""

    def __init__(self, state: State, making: Making, ending: Ending) -> None:
        self._state = state
        self._making = making
        self._ending = ending

    def begin(self) -> None:
        """Have all outages come in time."""
        kernel = self._state.kernel
        for fault in self._state.faults.of(NODE_DOWN):
            if fault.end > kernel.now:
                kernel.at(max(fault.begin, kernel.now), partial(self._switch, fault), Priority.FAULT)
                kernel.at(fault.end, partial(self._switch, fault), Priority.FAULT)

    def _switch(self, fault: Fault) -> None:
        """Look at the nodes that a fault is about: others may keep them off."""
        state = self._state
        for number, node in list(state.nodes.objects.items()):
            name = node.metadata.name
            up = not state.faults.holds(NODE_DOWN, state.now, name)
            if concerns(fault, name) and up != bool(state.nodes.up[number]):
                self._turn(number, up)

    def _turn(self, number: int, up: bool) -> None:
        state = self._state
        state.watcher.node(*state.nodes.switch(number, up, state.now))
        if up:
            self._ending.switch_on(number)
            state.on_room(number)
            state.on_nodes()
            state.kick()
        else:
            self._ending.switch_off(number)
            since = state.now
            state.kernel.after(_LOST_AFTER, lambda: self._lose(number, since))

    def _lose(self, number: int, since: float) -> None:
        state = self._state
        node = state.nodes.objects.get(number)
        changed = node.status.conditions[0].last_transition_time if node is not None else None
        if node is None or state.nodes.up[number] or changed is None or changed.timestamp() > since:
            return
        for living in list(state.nodes.pods[number].values()):
            # Pods of DaemonSets tolerate a node that is unreachable for as long as that lasts.
            if is_fixed(living.pod):
                continue
            self._making.lose(living, f"node {node.metadata.name} is off")
