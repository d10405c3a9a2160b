"""Nodes that join, leave, fail and come back.

A machine boots for a time and then becomes a node; pods on a node that leaves are lost. When a node is off, its
containers stop at once and its pods are not Ready. After five minutes they are lost, and created anew elsewhere; if the
node is back before, they start again where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from trellis.api.kube.nodes import Node, Taint
from trellis.core.nodes.state.pods import is_daemon_or_mirror_pod
from trellis.sim.cluster.kubelet.terminations import Terminations
from trellis.sim.cluster.nodes import build_node
from trellis.sim.cluster.pod_lifecycle import PodLifecycle
from trellis.sim.cluster.state import ModelState
from trellis.sim.faults import NODE_DOWN, is_affected
from trellis.sim.fleet import Fault
from trellis.sim.kernel import Priority, Ticket


class NodeMembership:
    """Adds machines to the cluster and removes them."""

    def __init__(self, state: ModelState, lifecycle: PodLifecycle) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._boots: dict[str, Ticket] = {}

    def boot(self, template: Node, name: str, price: float, seconds: float, up: Callable[[], None]) -> None:
        """Boot a machine; `up` is called when it is a node. It is paid for from now on."""
        state = self._state

        def join() -> None:
            del state.nodes.booting[name], self._boots[name]
            node = build_node(template, name, state.now)
            number = state.nodes.add(node, price)
            state.watcher.on_node(None, node)
            up()
            state.on_capacity_freed(number)
            state.on_nodes_changed()
            state.kick_scheduler()

        state.nodes.booting[name] = price
        self._boots[name] = state.kernel.after(seconds, join)

    def remove(self, name: str) -> None:
        """Remove a machine, whether it is up or not."""
        state = self._state
        if name in self._boots:
            self._boots.pop(name).cancel()
            del state.nodes.booting[name]
            return
        number = state.nodes.table.find(name)
        if number < 0:
            return
        for model_pod in list(state.nodes.pods[number].values()):
            if is_daemon_or_mirror_pod(model_pod.pod):
                # A DaemonSet's pod belongs to the node, so that nothing is lost with it.
                self._lifecycle.remove_pod(model_pod)
            else:
                self._lifecycle.lose_pod(model_pod, f"node {name} is removed")
        state.watcher.on_node(state.nodes.remove(number), None)
        state.on_nodes_changed()

    def taint(self, name: str, taints: tuple[Taint, ...]) -> None:
        """Replace the taints of a node. Its pods stay, whatever the taints say."""
        state = self._state
        number = state.nodes.table.find(name)
        if number >= 0:
            old = state.nodes.objects[number]
            new = msgspec.structs.replace(old, spec=msgspec.structs.replace(old.spec, taints=taints))
            state.nodes.replace(number, new)
            state.watcher.on_node(old, new)
            state.on_nodes_changed()
            state.kick_scheduler()


_POD_EVICTION_SECONDS: Final = 300.0


class NodeOutages:
    """Turns nodes off and on as the faults say."""

    def __init__(self, state: ModelState, lifecycle: PodLifecycle, terminations: Terminations) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._terminations = terminations

    def begin(self) -> None:
        """Schedule all outages."""
        kernel = self._state.kernel
        for fault in self._state.faults.list_faults(NODE_DOWN):
            if fault.end > kernel.now:
                kernel.at(max(fault.begin, kernel.now), partial(self._switch, fault), Priority.FAULT)
                kernel.at(fault.end, partial(self._switch, fault), Priority.FAULT)

    def _switch(self, fault: Fault) -> None:
        """Switch the nodes that a fault affects: another fault may keep them off."""
        state = self._state
        for number, node in list(state.nodes.objects.items()):
            name = node.metadata.name
            up = not state.faults.is_active(NODE_DOWN, state.now, name)
            if is_affected(fault, name) and up != bool(state.nodes.up[number]):
                self._set_up(number, up)

    def _set_up(self, number: int, up: bool) -> None:
        state = self._state
        state.watcher.on_node(*state.nodes.switch(number, up, state.now))
        if up:
            self._terminations.switch_on(number)
            state.on_capacity_freed(number)
            state.on_nodes_changed()
            state.kick_scheduler()
        else:
            self._terminations.switch_off(number)
            since = state.now
            state.kernel.after(_POD_EVICTION_SECONDS, lambda: self._lose(number, since))

    def _lose(self, number: int, since: float) -> None:
        state = self._state
        node = state.nodes.objects.get(number)
        changed = node.status.conditions[0].last_transition_time if node is not None else None
        if node is None or state.nodes.up[number] or changed is None or changed.timestamp() > since:
            return
        for model_pod in list(state.nodes.pods[number].values()):
            # Pods of DaemonSets tolerate an unreachable node for as long as that lasts.
            if is_daemon_or_mirror_pod(model_pod.pod):
                continue
            self._lifecycle.lose_pod(model_pod, f"node {node.metadata.name} is off")
