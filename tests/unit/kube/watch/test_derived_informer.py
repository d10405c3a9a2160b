"""An informer that is fed by another one: what it holds is what a list and a watch of its own would have brought."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from support import virtual_time
from support.api_server.server import Document, ModelServer, pod_path
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.pods import Pod
from trellis.core.cluster.store import BY_NAMESPACE, index_by_namespace
from trellis.kube.resources import PODS
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.incidents import IncidentKind
from trellis.kube.watch.informer import DerivedInformer, WatchInformer
from trellis.kube.watch.selection import Selection

RUNNING = Selection(field_selector="status.phase=Running")


def document(phase: str) -> Document:
    return {"metadata": {"labels": {"phase": phase}}, "status": {"phase": phase}}


def metadata_of(pod: Pod) -> KubeObject:
    return KubeObject(pod.metadata)


class World:
    """All pods are watched; running ones are derived from them, as their metadata."""

    def __init__(self) -> None:
        self.server = ModelServer()
        self.source = WatchInformer(self.server.client, PODS, draw=lambda: 0.5)
        self.changes: list[tuple[str, bool, bool]] = []

    def derive(self, selection: Selection = RUNNING) -> DerivedInformer[KubeObject]:
        derived = self.source.derive(PODS.as_metadata(), selection, metadata_of)
        derived.subscribe(self._note)
        return derived

    def _note(self, change: ObjectChange[KubeObject]) -> None:
        self.changes.append((change.key[1], change.old is not None, change.new is not None))

    def put(self, name: str, phase: str) -> None:
        self.server.put(pod_path(name), document(phase))

    def run(self, play: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            async with virtual_time.in_background(self.source.run()):
                await self.source.wait_until_synced()
                await play()

        virtual_time.run(main())


def names(informer: DerivedInformer[KubeObject]) -> list[str]:
    return sorted(name for _, name in informer.snapshot().objects)


def test_it_holds_the_projection_of_the_selected_objects_and_is_indexed() -> None:
    world = World()
    world.put("web-0", "Running")
    world.put("web-1", "Pending")
    derived = world.derive()
    derived.add_index(BY_NAMESPACE, index_by_namespace)

    async def play() -> None:
        assert derived.synced
        assert names(derived) == ["web-0"]
        (held,) = derived.by_index(BY_NAMESPACE, "shop")
        assert type(held) is KubeObject
        assert held.metadata.labels == {"phase": "Running"}
        assert (derived.staleness().connected, derived.lists) == (True, 1)

    world.run(play)


def test_an_object_that_leaves_the_selection_is_gone_and_one_that_joins_it_is_new() -> None:
    world = World()
    world.put("web-0", "Pending")
    derived = world.derive()

    async def play() -> None:
        for phase in ("Running", "Running", "Failed", "Failed"):
            world.put("web-0", phase)
            await asyncio.sleep(1.0)
        world.server.delete(pod_path("web-0"))
        await asyncio.sleep(1.0)
        new, changed, gone = ("web-0", False, True), ("web-0", True, True), ("web-0", True, False)
        assert world.changes == [new, changed, gone]
        assert names(derived) == []

    world.run(play)


def test_a_list_after_a_broken_watch_replaces_the_state_as_a_whole() -> None:
    world = World()
    for number in range(3):
        world.put(f"web-{number}", "Running")
    derived = world.derive()

    async def play() -> None:
        states: list[list[str]] = []
        derived.subscribe(lambda _change: states.append(names(derived)))
        states.clear()
        world.server.break_watches()
        world.server.delete(pod_path("web-0"))
        world.put("web-3", "Running")
        world.server.compact()
        await asyncio.sleep(60.0)
        assert derived.lists == 2
        assert states
        assert all(state == ["web-1", "web-2", "web-3"] for state in states)

    world.run(play)


def test_one_that_is_derived_late_has_everything_at_once() -> None:
    world = World()
    world.put("web-0", "Running")

    async def play() -> None:
        derived = world.derive()
        assert (derived.synced, names(derived)) == (True, ["web-0"])
        assert world.changes == [("web-0", False, True)]

    world.run(play)


def test_a_dropped_one_is_fed_no_longer() -> None:
    world = World()
    derived = world.derive()

    async def play() -> None:
        world.source.drop(derived)
        world.put("web-0", "Running")
        await asyncio.sleep(1.0)
        assert (names(derived), len(world.source.snapshot())) == ([], 1)

    world.run(play)


def test_an_unreadable_object_stays_as_it_was_and_is_reported_by_the_source_alone() -> None:
    world = World()
    world.put("web-0", "Running")
    derived, elsewhere = world.derive(), world.derive(Selection(("bank",)))

    async def play() -> None:
        world.server.put(pod_path("web-0"), {"status": {"phase": ["no", "text"]}})
        await asyncio.sleep(1.0)
        assert names(derived) == ["web-0"]
        assert list(derived.snapshot().rejected) == [("shop", "web-0")]
        assert not elsewhere.snapshot().rejected
        counts = (informer.incidents.counts[IncidentKind.REJECTED] for informer in (world.source, derived))
        assert list(counts) == [1, 0]
        world.server.delete(pod_path("web-0"))
        await asyncio.sleep(1.0)
        assert names(derived) == []

    world.run(play)


def test_a_failing_handler_is_an_incident_of_its_own() -> None:
    world = World()
    derived = world.derive()

    def fail(_change: ObjectChange[KubeObject]) -> None:
        raise ValueError("broken")

    async def play() -> None:
        derived.subscribe(fail)
        world.put("web-0", "Running")
        await asyncio.sleep(1.0)
        assert derived.incidents.counts[IncidentKind.HANDLER] == 1
        assert world.source.incidents.counts[IncidentKind.HANDLER] == 0

    world.run(play)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["web-0", "web-1", "web-2"]),
        st.sampled_from(["Pending", "Running", "deleted", "compact", "break"]),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(ACTIONS)
def test_whatever_happens_it_converges_to_what_the_api_server_has(actions: list[tuple[str, str]]) -> None:
    world = World()
    derived = world.derive()

    async def play() -> None:
        for name, action in actions:
            if action == "compact":
                world.server.compact()
            elif action == "break":
                world.server.break_watches()
            elif action == "deleted":
                if pod_path(name) in world.server.objects:
                    world.server.delete(pod_path(name))
            else:
                world.put(name, action)
            await asyncio.sleep(0.5)
        for _ in range(5):
            await asyncio.sleep(60.0)
            world.server.bookmark()
        await asyncio.sleep(1.0)
        running = [pod.metadata.name for pod in world.source.snapshot() if pod.status.phase == "Running"]
        assert names(derived) == sorted(running)
        alive = {name for name, _, is_there in world.changes if is_there} - _last_gone(world.changes)
        assert alive == set(running)

    world.run(play)


def _last_gone(changes: list[tuple[str, bool, bool]]) -> set[str]:
    last = {name: is_there for name, _, is_there in changes}
    return {name for name, is_there in last.items() if not is_there}
