"""Waits until the watch shows writes of nodes; each is compared when its node changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from support import virtual_time
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.nodes import Node
from trellis.controllers.nodes.executor import PendingNodeWrites
from trellis.kube.resources import NODES
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.informer import Informer
from trellis.kube.write.actions import Action, CreateObject, DeleteObject, PatchObject, Target
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.kube.write.patches import merge_patch


class Nodes:
    """The nodes that a watch has shown so far, and the number of reads."""

    def __init__(self) -> None:
        self.known: dict[str, Node] = {}
        self.asked = 0
        self._handlers: list[Callable[[ObjectChange[Node]], None]] = []

    def subscribe(self, handler: Callable[[ObjectChange[Node]], None]) -> None:
        self._handlers.append(handler)

    def get(self, _namespace: str, name: str) -> Node | None:
        self.asked += 1
        return self.known.get(name)

    def show(self, name: str, version: str = "7", *, gone: bool = False) -> None:
        old = self.known.pop(name, None)
        new = None if gone else Node(ObjectMeta(name=name, uid=name, resource_version=version))
        if new is not None:
            self.known[name] = new
        for handler in self._handlers:
            handler(ObjectChange(("", name), old, new))


def applied(action: Action, version: str = "7") -> WriteOutcome:
    return WriteOutcome(action, Result.APPLIED, resource_version=version)


def created(name: str) -> WriteOutcome:
    return applied(CreateObject(Target(NODES, name), {}))


def waited(*written: WriteOutcome, show: Callable[[Nodes], None], before: tuple[str, ...] = ()) -> tuple[float, Nodes]:
    """For how many seconds writes are waited for, of which something is shown after a second."""
    nodes = Nodes()
    for name in before:
        nodes.show(name, "5")

    async def main() -> float:
        writes = PendingNodeWrites(cast("Informer[Node]", nodes))
        writes.subscribe()
        clock = asyncio.get_running_loop().time
        asyncio.get_running_loop().call_later(1.0, show, nodes)
        await writes.wait_for(written)
        return clock()

    return virtual_time.run(main()), nodes


def test_a_wait_ends_when_the_last_write_is_observed() -> None:
    patched = applied(PatchObject(Target(NODES, "b", uid="b"), merge_patch({})), "9")
    deleted = applied(DeleteObject(Target(NODES, "c", uid="c")))

    def show(nodes: Nodes) -> None:
        nodes.show("a")
        nodes.show("b", "9")
        nodes.show("c", gone=True)

    elapsed, _ = waited(created("a"), patched, deleted, show=show, before=("b", "c"))
    assert elapsed == 1.0


def test_a_wait_for_unobserved_writes_times_out() -> None:
    elapsed, _ = waited(created("a"), created("never"), show=lambda nodes: nodes.show("a"))
    assert elapsed == 5.0
    older = applied(PatchObject(Target(NODES, "b", uid="b"), merge_patch({})), "9")
    elapsed, _ = waited(older, show=lambda nodes: nodes.show("b", "8"), before=("b",))
    assert elapsed == 5.0


def test_a_change_of_a_node_is_compared_only_with_the_writes_of_that_node() -> None:
    names = [f"n{number}" for number in range(200)]

    def show(nodes: Nodes) -> None:
        # One by one, as a watch shows them.
        for at, name in enumerate(names):
            asyncio.get_running_loop().call_later(at / 1000, nodes.show, name)

    elapsed, nodes = waited(*map(created, names), show=show)
    assert elapsed < 2.0
    assert nodes.asked <= 3 * len(names)
