"""How do nodes come and go? A machine boots for a time and is a node then; what is left on one that goes is lost."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from trellis.api.kube.nodes import Node, Taint
from trellis.core.nodes.pods import is_fixed
from trellis.sim.cluster.making import Making
from trellis.sim.cluster.nodes import made
from trellis.sim.cluster.state import State
from trellis.sim.kernel import Ticket


class Joining:
    """The machines of the cluster, as far as there are more or fewer of them."""

    def __init__(self, state: State, making: Making) -> None:
        self._state = state
        self._making = making
        self._boots: dict[str, Ticket] = {}

    def boot(self, template: Node, name: str, price: float, seconds: float, up: Callable[[], None]) -> None:
        """Begin with a machine; `up` is told when it is a node. It is paid for from now on."""
        state = self._state

        def join() -> None:
            del state.nodes.booting[name], self._boots[name]
            node = made(template, name, state.now)
            number = state.nodes.add(node, price)
            state.watcher.node(None, node)
            up()
            state.on_room(number)
            state.on_nodes()
            state.kick()

        state.nodes.booting[name] = price
        self._boots[name] = state.kernel.after(seconds, join)

    def remove(self, name: str) -> None:
        """A machine is given back, whether it is up or not."""
        state = self._state
        if name in self._boots:
            self._boots.pop(name).cancel()
            del state.nodes.booting[name]
            return
        number = state.nodes.table.find(name)
        if number < 0:
            return
        for living in list(state.nodes.pods[number].values()):
            if is_fixed(living.pod):
                # It belongs to the node, so that nothing is lost with it.
                self._making.forget(living)
            else:
                self._making.lose(living, f"node {name} is gone")
        state.watcher.node(state.nodes.remove(number), None)
        state.on_nodes()

    def taint(self, name: str, taints: tuple[Taint, ...]) -> None:
        """Give a node these taints and no others. Who is there stays, whatever they say."""
        state = self._state
        number = state.nodes.table.find(name)
        if number >= 0:
            old = state.nodes.objects[number]
            new = msgspec.structs.replace(old, spec=msgspec.structs.replace(old.spec, taints=taints))
            state.nodes.replace(number, new)
            state.watcher.node(old, new)
            state.on_nodes()
            state.kick()
