"""The informer against a small model of an API server, on a virtual clock: it converges, and says how stale it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import virtual_time
from support.api_server.server import Document, ModelServer, pod, pod_path
from trellis.api.kube.pods import Pod
from trellis.base.errors import Unreachable
from trellis.core.cluster.store import BY_NODE, ObjectKey, index_by_node
from trellis.kube.client import Client
from trellis.kube.resources import PODS
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.incidents import Incident, IncidentKind
from trellis.kube.watch.informer import Informer, WatchInformer
from trellis.testing.scripted_transport import (
    ScriptedResponse,
    ScriptedTransport,
    StreamScript,
    error_response,
    list_response,
)


async def settle(server: ModelServer) -> None:
    """Ten minutes, with the bookmarks that an API server sends."""
    for _ in range(10):
        await asyncio.sleep(60)
        server.bookmark()
    await asyncio.sleep(1)


@asynccontextmanager
async def following(server: ModelServer, **options: Any) -> AsyncIterator[Informer[Pod]]:
    informer = WatchInformer(server.client, PODS, draw=lambda: 0.5, indexes={BY_NODE: index_by_node}, **options)
    task = asyncio.create_task(informer.run())
    try:
        yield informer
        assert not task.done()
    finally:
        task.cancel()


def on(server: ModelServer, work: Callable[[Informer[Pod]], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with following(server, **options) as informer:
            await informer.wait_until_synced()
            await work(informer)

    virtual_time.run(main())


def serving(*names: str) -> ModelServer:
    server = ModelServer()
    for name in names:
        server.put(pod_path(name), pod())
    return server


def versions(informer: Informer[Pod]) -> dict[str, str]:
    return {pod.metadata.name: pod.metadata.resource_version for pod in informer.snapshot()}


def server_versions(server: ModelServer) -> dict[str, str]:
    return {doc["metadata"]["name"]: doc["metadata"]["resourceVersion"] for doc in server.objects.values()}


def spoiled() -> Document:
    """A pod whose node is a number."""
    return {"spec": {"nodeName": 17}}


def kinds(incidents: list[Incident]) -> list[IncidentKind]:
    return [incident.kind for incident in incidents]


def test_an_informer_has_existing_objects_and_every_later_change() -> None:
    server = serving("a", "b")

    async def work(informer: Informer[Pod]) -> None:
        server.put(pod_path("b"), pod("node-2"))
        server.put(pod_path("c"), pod("node-2"))
        server.delete(pod_path("a"))
        await asyncio.sleep(0.1)
        assert versions(informer) == server_versions(server)
        assert {pod.metadata.name for pod in informer.snapshot().by_index(BY_NODE, "node-2")} == {"b", "c"}
        assert {pod.metadata.name for pod in informer.by_index(BY_NODE, "node-2")} == {"b", "c"}
        assert informer.count(BY_NODE, "node-2") == 2
        assert (informer.by_index(BY_NODE, "node-9"), informer.count(BY_NODE, "node-9")) == ((), 0)
        assert (informer.get("shop", "a"), informer.get("shop", "c")) == (None, informer.snapshot().get("shop", "c"))
        assert (informer.lists, informer.events) == (1, 3)

    on(server, work)


def test_it_is_not_synced_before_every_list_was_read_once() -> None:
    server = serving("a")
    server.faults.extend([error_response(500, "InternalError"), Unreachable("no route")])

    async def main() -> None:
        async with following(server) as informer:
            await asyncio.sleep(0.1)
            assert not informer.synced
            assert not informer.staleness().synced
            assert len(informer.snapshot()) == 0
            await informer.wait_until_synced()
            assert versions(informer) == server_versions(server)

    virtual_time.run(main())


def test_every_handler_gets_every_change_with_the_previous_object() -> None:
    server = serving("a")
    changes: list[list[tuple[str, str, str]]] = [[], []]

    def record_in(to: list[tuple[str, str, str]]) -> Callable[[ObjectChange[Pod]], None]:
        def node(side: Pod | None) -> str:
            return side.spec.node_name if side else "-"

        return lambda change: to.append((change.key[1], node(change.old), node(change.new)))

    async def work(informer: Informer[Pod]) -> None:
        informer.subscribe(record_in(changes[0]))
        server.put(pod_path("a"), pod("node-2"))
        await asyncio.sleep(0.1)
        informer.subscribe(record_in(changes[1]))
        server.delete(pod_path("a"))
        await asyncio.sleep(0.1)

    on(server, work)
    assert changes[0] == [("a", "-", "node-1"), ("a", "node-1", "node-2"), ("a", "node-2", "-")]
    assert changes[1] == [("a", "-", "node-2"), ("a", "node-2", "-")]


def test_a_handler_that_fails_is_reported_and_neither_the_watch_nor_other_handlers_suffer() -> None:
    server = serving("a")
    keys: list[ObjectKey] = []
    reported: list[Incident] = []

    def broken(change: ObjectChange[Pod]) -> None:
        raise KeyError(change.key[1])

    async def work(informer: Informer[Pod]) -> None:
        informer.subscribe(broken)
        informer.subscribe(lambda change: keys.append(change.key))
        server.put(pod_path("b"), pod())
        await asyncio.sleep(0.1)
        assert versions(informer) == server_versions(server)
        assert informer.lists == 1

    on(server, work, report=reported.append)
    assert keys == [("shop", "a"), ("shop", "b")]
    assert [(incident.kind, incident.key) for incident in reported] == [
        (IncidentKind.HANDLER, ("shop", "a")),
        (IncidentKind.HANDLER, ("shop", "b")),
    ]
    assert isinstance(reported[0].error, KeyError)


def test_an_object_with_a_wrong_type_in_one_field_is_reported_and_all_others_work() -> None:
    server = serving("a", "b")
    server.put(pod_path("bad"), spoiled())

    async def work(informer: Informer[Pod]) -> None:
        assert set(versions(informer)) == {"a", "b"}
        assert set(informer.snapshot().rejected) == {("shop", "bad")}
        assert "nodeName" in informer.snapshot().rejected["shop", "bad"]
        server.put(pod_path("b"), spoiled())
        server.put(pod_path("c"), pod())
        await asyncio.sleep(0.1)
        assert set(versions(informer)) == {"a", "b", "c"}
        assert set(informer.snapshot().rejected) == {("shop", "bad"), ("shop", "b")}
        assert informer.incidents.counts[IncidentKind.REJECTED] == 2

    on(server, work)


def test_an_object_that_cannot_be_read_any_more_is_not_taken_for_deleted() -> None:
    server = serving("a", "b")
    changes: list[ObjectChange[Pod]] = []

    async def work(informer: Informer[Pod]) -> None:
        informer.subscribe(changes.append)
        changes.clear()
        server.break_watches()
        server.put(pod_path("b"), spoiled())
        server.compact()
        await settle(server)
        assert informer.lists == 2
        assert changes == []
        assert informer.snapshot().get("shop", "b") is not None
        assert ("shop", "b") in informer.snapshot().rejected
        server.put(pod_path("b"), pod("node-3"))
        await asyncio.sleep(1)
        assert dict(informer.snapshot().rejected) == {}
        assert [change.new.spec.node_name for change in changes if change.new] == ["node-3"]

    on(server, work)


def test_an_unreadable_object_that_is_deleted_is_gone() -> None:
    server = serving("a", "b")
    gone: list[ObjectKey] = []

    async def work(informer: Informer[Pod]) -> None:
        informer.subscribe(lambda change: None if change.new else gone.append(change.key))
        server.put(pod_path("b"), spoiled())
        server.delete(pod_path("b"))
        await asyncio.sleep(0.1)
        assert set(versions(informer)) == {"a"}
        assert dict(informer.snapshot().rejected) == {}

    on(server, work)
    assert gone == [("shop", "b")]


def test_while_an_object_cannot_even_be_named_nothing_that_is_missing_counts_as_deleted() -> None:
    server = serving("a", "b")

    async def work(informer: Informer[Pod]) -> None:
        server.objects[pod_path("b")]["metadata"]["name"] = 5
        server.break_watches()
        server.compact()
        server.put(pod_path("c"), pod())
        server.compact()
        await settle(server)
        assert informer.lists == 2
        assert set(versions(informer)) == {"a", "b", "c"}
        assert set(informer.snapshot().rejected) == {("shop", "b")}

    on(server, work)


def test_a_value_that_a_newer_kubernetes_invented_is_read_as_it_is() -> None:
    server = serving()
    server.put(pod_path("a"), {"spec": {"restartPolicy": "OnTuesdays"}, "status": {"phase": "Hibernating"}})

    async def work(informer: Informer[Pod]) -> None:
        pod = informer.snapshot().get("shop", "a")
        assert pod is not None
        assert (pod.spec.restart_policy, pod.status.phase) == ("OnTuesdays", "Hibernating")

    on(server, work)


def test_an_annotation_of_a_megabyte_does_not_stop_the_informer() -> None:
    server = serving("a")
    server.put(pod_path("big"), pod(annotations={"notes": "x" * 1_000_000}))

    async def work(informer: Informer[Pod]) -> None:
        server.put(pod_path("big"), pod(annotations={"notes": "y" * 1_000_000}))
        server.put(pod_path("b"), pod())
        await asyncio.sleep(0.1)
        assert versions(informer) == server_versions(server)
        stored = informer.snapshot().get("shop", "big")
        assert stored is not None
        assert stored.metadata.annotations["notes"].startswith("y")

    on(server, work)


def test_410_during_a_watch_loses_no_change() -> None:
    server = serving("a", "b")
    changes: list[ObjectChange[Pod]] = []

    async def work(informer: Informer[Pod]) -> None:
        informer.subscribe(changes.append)
        changes.clear()
        server.break_watches()
        server.delete(pod_path("a"))
        server.put(pod_path("b"), pod("node-2"))
        server.put(pod_path("c"), pod())
        server.compact()
        await settle(server)
        assert versions(informer) == server_versions(server)
        assert informer.lists == 2

    on(server, work)
    assert [(change.key[1], change.old is None, change.new is None) for change in changes] == [
        ("a", False, True),
        ("b", False, False),
        ("c", True, False),
    ]


def test_a_pod_with_the_name_of_one_that_was_deleted_meanwhile_is_another_pod() -> None:
    server = serving("a")
    changes: list[ObjectChange[Pod]] = []

    async def work(informer: Informer[Pod]) -> None:
        informer.subscribe(changes.append)
        changes.clear()
        server.break_watches()
        server.delete(pod_path("a"))
        server.put(pod_path("a"), pod())
        server.compact()
        await settle(server)

    on(server, work)
    assert [(bool(change.old), bool(change.new)) for change in changes] == [(True, False), (False, True)]


def test_objects_that_did_not_change_are_kept_when_a_list_brings_them_again() -> None:
    server = serving("a", "b")

    async def work(informer: Informer[Pod]) -> None:
        before = informer.snapshot()
        server.break_watches()
        server.put(pod_path("b"), pod("node-2"))
        server.compact()
        await settle(server)
        after = informer.snapshot()
        assert informer.lists == 2
        assert after.get("shop", "a") is before.get("shop", "a")
        assert after.get("shop", "b") is not before.get("shop", "b")

    on(server, work)


def test_pages_of_a_failed_list_are_dropped() -> None:
    def listed(name: str, **options: Any) -> ScriptedResponse:
        return list_response([{"metadata": {"name": name, "namespace": "shop"}}], **options)

    script = ScriptedTransport(
        listed("gone-meanwhile", continue_from="more"), Unreachable("reset"), listed("there"), StreamScript()
    )

    async def main() -> None:
        informer = WatchInformer(Client(script), PODS, draw=lambda: 0.5)
        task = asyncio.create_task(informer.run())
        await informer.wait_until_synced()
        assert set(versions(informer)) == {"there"}
        task.cancel()

    virtual_time.run(main())


def test_an_informer_reports_staleness_during_and_after_an_outage() -> None:
    server = serving("a")
    reported: list[Incident] = []

    async def work(informer: Informer[Pod]) -> None:
        server.put(pod_path("a"), pod("node-2"))
        await asyncio.sleep(20)
        fresh = informer.staleness()
        assert (fresh.synced, fresh.connected) == (True, True)
        assert (fresh.contact_age, fresh.event_age) == (20, 20)
        server.bookmark()
        await asyncio.sleep(5)
        assert (informer.staleness().contact_age, informer.staleness().event_age) == (5, 25)
        server.faults.extend([Unreachable("no route to host")] * 12)
        server.break_watches()
        await asyncio.sleep(60)
        stale = informer.staleness()
        assert (stale.synced, stale.connected, stale.contact_age) == (True, False, 65)
        assert versions(informer) == server_versions(server)
        await asyncio.sleep(90)
        assert informer.staleness().connected

    on(server, work, report=reported.append)
    assert kinds(reported) == [IncidentKind.TROUBLE] * 13 + [IncidentKind.RECOVERED]
    assert reported[-1].seconds == pytest.approx(5 + 68.4)
    assert "no route to host" in reported[-2].message


def test_20_000_changes_are_applied_without_blocking_the_event_loop() -> None:
    server = serving(*(f"web-{i}" for i in range(100)))
    turns = 0

    async def work(informer: Informer[Pod]) -> None:
        nonlocal turns
        for i in range(200):
            for k in range(100):
                server.put(pod_path(f"web-{k}"), pod(f"node-{i}"))
        while informer.events < 20_000:
            turns += 1
            await asyncio.sleep(0)
        assert versions(informer) == server_versions(server)
        # One state per pod is kept, not one per change.
        assert len(informer.snapshot()) == 100
        assert set(informer.snapshot().index_values(BY_NODE)) == {"node-199"}

    on(server, work)
    assert turns >= 200


def test_a_snapshot_taken_for_a_pass_stays_the_same_while_a_thread_reads_it() -> None:
    server = serving(*(f"web-{i}" for i in range(50)))

    async def work(informer: Informer[Pod]) -> None:
        snapshot = informer.snapshot()

        def read() -> set[tuple[int, int]]:
            return {(len(snapshot), len(snapshot.by_index(BY_NODE, "node-1"))) for _ in range(2_000)}

        reading = asyncio.get_running_loop().run_in_executor(None, read)
        for i in range(50):
            server.put(pod_path(f"web-{i}"), pod("node-2"))
            await asyncio.sleep(0)
        assert await reading == {(50, 50)}
        await asyncio.sleep(0.1)
        assert len(informer.snapshot().by_index(BY_NODE, "node-2")) == 50

    on(server, work)


NAMES = st.sampled_from([f"web-{i}" for i in range(6)])
STEP = st.one_of(
    st.tuples(st.sampled_from(["put", "delete", "spoil"]), NAMES),
    st.tuples(st.sampled_from(["break", "end", "compact", "bookmark"]), st.just("")),
    st.tuples(st.just("fault"), st.sampled_from(["500", "429", "410", "reset"])),
    st.tuples(st.just("wait"), st.sampled_from(["0", "0.5", "5", "200"])),
)
FAULTS: dict[str, ScriptedResponse] = {
    "500": error_response(500, "InternalError"),
    "429": error_response(429, "TooManyRequests", retry_after=3),
    "410": error_response(410, "Expired"),
    "reset": Unreachable("connection reset by peer"),
}


async def _do(server: ModelServer, step: str, argument: str) -> None:
    match step:
        case "put":
            server.put(pod_path(argument), pod(f"node-{server.version % 3}"))
        case "spoil":
            server.put(pod_path(argument), spoiled())
        case "delete" if pod_path(argument) in server.objects:
            server.delete(pod_path(argument))
        case "break":
            server.break_watches()
        case "end":
            server.end_watches()
        case "compact":
            server.compact()
        case "bookmark":
            server.bookmark()
        case "fault":
            server.faults.append(FAULTS[argument])
        case "wait":
            await asyncio.sleep(float(argument))


@settings(max_examples=100)
@given(steps=st.lists(STEP, max_size=40))
def test_whatever_happens_on_the_way_the_informer_ends_with_the_servers_state(steps: list[tuple[str, str]]) -> None:
    server = serving("web-0", "web-1")
    folded: dict[ObjectKey, Pod] = {}

    def fold(change: ObjectChange[Pod]) -> None:
        folded.pop(change.key, None)
        if change.new is not None:
            folded[change.key] = change.new

    async def main() -> None:
        async with following(server) as informer:
            informer.subscribe(fold)
            for step, argument in steps:
                await _do(server, step, argument)
            await settle(server)
            snapshot = informer.snapshot()
            unreadable = {
                ("shop", doc["metadata"]["name"]) for doc in server.objects.values() if doc["spec"]["nodeName"] == 17
            }
            assert set(snapshot.rejected) == unreadable
            assert {key[1] for key in snapshot.objects.keys() | unreadable} == set(server_versions(server))
            for key in snapshot.objects.keys() - unreadable:
                assert snapshot.objects[key].metadata.resource_version == server_versions(server)[key[1]]
            assert folded == dict(snapshot.objects)
            assert informer.staleness().connected

    virtual_time.run(main())
