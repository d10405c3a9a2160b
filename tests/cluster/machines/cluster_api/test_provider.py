"""The provider clusterapi against the real Cluster API: releases remove exactly the Machines that they name."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from random import Random

import pytest

from support.cluster.machines.cluster_api import ClusterApiGroups
from testbed.client import Json
from testbed.cluster_api.manager import MAX_SIZE, MIN_SIZE
from trellis.api.kube.nodes import Node
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.core.nodes.node_groups import GroupState, InstanceState
from trellis.kube.resources import NODES
from trellis.kube.write.writer import Writer
from trellis.providers.cluster_api.plugin import open_cluster_api
from trellis.providers.cluster_api.settings import ClusterApiSettings
from trellis.providers.plugins import ProviderContext, RunningProvider
from trellis.runtime.cluster_connection import connect
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.settings.component import AccessSettings
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

# So many removals in the middle of rollouts, of 25 MachineDeployments at most at a time.
ROLLOUTS = int(os.environ.get("MACHINES_ROLLOUTS", "20"))
GROUPS = min(ROLLOUTS, 25)
ROUNDS = -(-ROLLOUTS // GROUPS)
PATIENCE_SECONDS = 400.0
SIZES = {MIN_SIZE: "0", MAX_SIZE: "10"}


class Driver:
    """The provider on its own, and what the autoscaler does with it: it tends, orders and releases."""

    def __init__(self, running: RunningProvider) -> None:
        self.provider, self.writer = running

    async def tend(self) -> None:
        for step in (await self.provider.tend(time.time())).steps:
            await self.writer.write_all(step)

    async def states(self) -> dict[str, GroupState]:
        states = (await self.provider.groups(time.time())).states
        return {state.group.name.rpartition("/")[2]: state for state in states}

    async def release(self, state: GroupState, *machines: str) -> bool:
        """Release Machines; whether that was possible now."""
        instances = [f"{state.group.name.split('/')[1]}/{machine}" for machine in machines]
        released = await self.provider.release(state.group.name, instances, time.time())
        for step in released.steps:
            await self.writer.write_all(step)
        return not released.refused

    async def order(self, state: GroupState, target: int) -> None:
        ordered = await self.provider.order(state.group.name, target, time.time())
        assert ordered.error is None, ordered.error
        for step in ordered.steps:
            await self.writer.write_all(step)

    async def refill(self, size: int) -> None:
        """Order Machines until each group has so many."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                states = (await self.states()).values()
                if all(is_steady(state, size) for state in states):
                    return
                # An order on an old view is refused by the API server: the next pass gives it again.
                for state in [state for state in states if state.target < size]:
                    await self.order(state, size)
                await self.tend()
                await asyncio.sleep(0.1)

    async def until(self, condition: str, holds: Callable[[dict[str, GroupState]], bool]) -> None:
        """Tend until a condition of the states holds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds(await self.states()):
                await self.tend()
                await asyncio.sleep(0.1)
        assert condition


def drive(groups: ClusterApiGroups, story: Callable[[Driver], Awaitable[None]]) -> None:
    """Run a story with a provider that is opened as the autoscaler opens it."""
    log = Logger("trellis.nodes")

    async def main() -> None:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                connect(AccessSettings(kubeconfig=str(groups.cluster.kubeconfig)), "trellis", log)
            )
            nodes: list[Node] = []
            metrics = Metrics(NODE_METRICS, about_process=False)
            context = ProviderContext(
                client=client,
                served=await client.discover(),
                informers=Informers(client, UnreadableKinds(metrics, log), draw=Random(0).random),  # noqa: S311
                list_nodes=lambda: tuple(nodes),
                writer=Writer(client, record=lambda _outcome: None),
                metrics=metrics,
                now=time.time,
                sections=(ClusterApiSettings(cluster_api_namespaces=(groups.cluster_api.namespace,)),),
            )
            driver = Driver(await stack.enter_async_context(open_cluster_api(context)))

            ended = asyncio.Event()

            async def follow_nodes() -> None:
                while not ended.is_set():
                    nodes[:] = (await client.list_all(NODES)).items
                    await asyncio.sleep(0.2)

            following = asyncio.create_task(follow_nodes())
            try:
                await story(driver)
            finally:
                ended.set()
                await following

    asyncio.run(main())


def count(state: GroupState, wanted: InstanceState) -> int:
    return state.count(wanted)


def is_steady(state: GroupState, size: int) -> bool:
    return state.removals_suspended is None and count(state, InstanceState.RUNNING) == len(state.instances) == size


@pytest.mark.timeout(PATIENCE_SECONDS * (1 + ROUNDS))
def test_releases_during_rollouts_remove_no_other_machine(machine_groups: ClusterApiGroups) -> None:
    cluster_api, api = machine_groups.cluster_api, machine_groups.cluster.api
    for number in range(ROUNDS + 1):
        cluster_api.add_template(f"template-{number}", cpu="2", memory="4Gi", bootSeconds=1)
    names = [f"pool-{number:02}" for number in range(GROUPS)]
    for name in names:
        cluster_api.add_deployment(name, 2, template="template-0", annotations=SIZES, max_surge=2)
    random = Random(7)  # noqa: S311
    released = 0

    async def story(driver: Driver) -> None:
        nonlocal released
        await driver.until("all Machines", lambda states: sum(is_steady(own, 2) for own in states.values()) == GROUPS)
        for number in range(ROUNDS):
            before = {machine["metadata"]["name"] for machine in list_deleted(versions)}
            rollouts = Rollouts(machine_groups, names, f"template-{number + 1}", random)
            await rollouts.play(driver)
            deleted = {own["metadata"]["name"]: own for own in list_deleted(versions)}
            assert len(rollouts.released) == GROUPS
            assert set(rollouts.released.values()) <= deleted.keys() - before
            # Those of the old template are replaced in any case.
            others = deleted.keys() - before - set(rollouts.released.values())
            assert not [name for name in others if rollouts.is_new(deleted[name])]
            released += len(rollouts.released)
            await driver.refill(2)

    with api.watch(cluster_api.path("machines"), timeoutSeconds="36000") as versions:
        drive(machine_groups, story)
    assert released == GROUPS * ROUNDS >= ROLLOUTS


def list_deleted(versions: list[Json]) -> list[Json]:
    """The last versions of Machines that were being deleted."""
    found = {own["metadata"]["name"]: own for own in list(versions) if "deletionTimestamp" in own["metadata"]}
    return list(found.values())


class Rollouts:
    """Begins a rollout of each group, and releases one of its Machines a moment before or some time after."""

    def __init__(self, groups: ClusterApiGroups, names: list[str], template: str, random: Random) -> None:
        self._groups = groups
        self._template = template
        self.released: dict[str, str] = {}
        self._hashes: dict[str, str] = {}
        self._random = random
        self._rollout_at = {name: random.uniform(0, 4) for name in names}
        self._release_at = {name: at + random.uniform(-0.5, 4) for name, at in self._rollout_at.items()}
        self._count = len(names)

    async def play(self, driver: Driver) -> None:
        """Until all rollouts have ended and all released Machines are gone."""
        began = time.monotonic()
        await asyncio.to_thread(self._note_templates)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (len(self.released) == self._count and await asyncio.to_thread(self._are_over)):
                elapsed = time.monotonic() - began
                for name in [name for name, at in self._rollout_at.items() if at <= elapsed]:
                    del self._rollout_at[name]
                    await asyncio.to_thread(self._begin, name)
                states = await driver.states()
                for name in [name for name, at in self._release_at.items() if at <= elapsed]:
                    running = [own.id for own in states[name].instances if own.state is InstanceState.RUNNING]
                    victim = self._random.choice(running).partition("/")[2] if running else ""
                    if victim and await driver.release(states[name], victim):
                        self.released[name] = victim
                        del self._release_at[name]
                await driver.tend()
                await asyncio.sleep(0.1)

    def is_new(self, machine: Json) -> bool:
        """Whether a Machine was made by the template that is rolled out."""
        return self._hashes[machine["metadata"]["labels"]["machine-template-hash"]] == self._template

    def _begin(self, name: str) -> None:
        path = self._groups.cluster_api.path("machinedeployments", name)
        reference = {"infrastructureRef": {"name": self._template}}
        self._groups.cluster.api.patch(path, {"spec": {"template": {"spec": reference}}})

    def _note_templates(self) -> None:
        """MachineSets of old templates are deleted in the end."""
        for own in self._groups.cluster.api.list_items(self._groups.cluster_api.path("machinesets")):
            hashed = own["metadata"]["labels"]["machine-template-hash"]
            self._hashes[hashed] = own["spec"]["template"]["spec"]["infrastructureRef"]["name"]

    def _are_over(self) -> bool:
        self._note_templates()
        machines = self._groups.cluster_api.machines().values()
        return all(self.is_new(own) for own in machines) and not any(
            "deletionTimestamp" in own["metadata"]
            or "nodes.trellis.x-k8s.io/released" in own["metadata"].get("annotations", {})
            for own in machines
        )


def test_a_machine_that_is_named_while_another_one_deletes_is_the_one_that_goes(
    machine_groups: ClusterApiGroups,
) -> None:
    cluster_api = machine_groups.cluster_api
    cluster_api.add_template("small", cpu="2", memory="4Gi", bootSeconds=1)
    cluster_api.add_deployment("pool", 4, template="small", annotations=SIZES)

    async def story(driver: Driver) -> None:
        await driver.until("all Machines", lambda states: "pool" in states and is_steady(states["pool"], 4))
        first, second, third, last = sorted(cluster_api.machines("pool"))
        machine_groups.hold(first)
        await driver.release((await driver.states())["pool"], first)
        await driver.until("the first to be deleted", lambda _states: is_deleting(first))

        # Cluster API would take the first one again, and the second would stay, named.
        await driver.release((await driver.states())["pool"], second)
        await driver.until("the second to go", lambda _states: second not in cluster_api.machines("pool"))
        assert sorted(cluster_api.machines("pool")) == [first, third, last]

        # Another client deletes one, which takes the place of its successor: now nothing else can be named.
        machine_groups.hold(third)
        machine_groups.cluster.api.delete(cluster_api.path("machines", third))
        await driver.until("the third to be deleted", lambda _states: is_deleting(third))
        await driver.release((await driver.states())["pool"], last)
        for _ in range(10):
            await driver.tend()
            await asyncio.sleep(0.1)
        assert "cluster.x-k8s.io/delete-machine" not in cluster_api.machines("pool")[last]["metadata"]["annotations"]

        # An order is not blocked by those that leave, and none of them is lost track of.
        await driver.order((await driver.states())["pool"], 1)
        await driver.until("its Machine", lambda states: count(states["pool"], InstanceState.RUNNING) == 1)
        for machine in (first, third):
            machine_groups.let_go(machine)
        await driver.until("the end", lambda states: is_steady(states["pool"], 1))
        [successor] = cluster_api.machines("pool")
        assert successor not in {first, second, third, last}
        assert machine_groups.deployment("pool")["spec"]["replicas"] == 1

    def is_deleting(name: str) -> bool:
        return "deletionTimestamp" in cluster_api.machines("pool").get(name, {"metadata": {}})["metadata"]

    drive(machine_groups, story)
