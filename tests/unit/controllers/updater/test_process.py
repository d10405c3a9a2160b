"""The whole process: probes, metrics, lease and Events, from its start to its end."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from support.controllers.updater import World
from testbed.processes import reserve_ports
from trellis.controllers.updater.process import updater_spec
from trellis.runtime.component import run_component
from trellis.runtime.shutdown import Shutdown

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vpa-updater"

RESIZED = 'vpa_updater_in_place_updated_pods_total{vpa_name="'
PASSED = 'vpa_updater_execution_latency_seconds_count{step="total"} 1'


def test_process_from_start_to_end() -> None:
    [probes] = reserve_ports(1)
    world = World(f"--address=127.0.0.1:{probes}", "--leader-elect=true")
    world.add_workload(mode="InPlaceOrRecreate")

    async def main() -> None:
        stop = Shutdown()
        running = asyncio.create_task(
            run_component(updater_spec(world.settings), world.settings, stop, world.server.client)
        )
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            while len(world.resizes) < 2:  # noqa: ASYNC110 - a model server tells nobody
                await asyncio.sleep(0.01)
            assert world.server.objects[LEASE]["spec"]["holderIdentity"]
            while not any("/events/" in path for path in world.server.objects):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            while RESIZED not in await _metrics(session, probes):  # noqa: ASYNC110 - counted once the write is answered
                await asyncio.sleep(0.01)
            async with session.get(f"http://127.0.0.1:{probes}/readyz") as response:
                assert response.status == 200
            async with session.get(f"http://127.0.0.1:{probes}/health-check") as response:
                assert await response.text() == "OK"
            stop.request("the test is over")
            await running
        assert not world.server.objects[LEASE]["spec"].get("holderIdentity")

    asyncio.run(main())


@pytest.mark.parametrize("flag", ["--dry-run=true", "--read-only=true"])
def test_a_read_only_component_takes_no_lease_and_records_no_events(flag: str) -> None:
    [probes] = reserve_ports(1)
    world = World(f"--address=127.0.0.1:{probes}", "--leader-elect=true", flag)
    world.add_workload()

    async def main() -> None:
        stop = Shutdown()
        running = asyncio.create_task(
            run_component(updater_spec(world.settings), world.settings, stop, world.server.client)
        )
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            while PASSED not in await _metrics(session, probes):  # noqa: ASYNC110 - the process tells nobody else
                await asyncio.sleep(0.01)
            stop.request("the test is over")
            await running
        assert LEASE not in world.server.objects
        assert not any("/events/" in path for path in world.server.objects)
        assert world.evictions == []

    asyncio.run(main())


async def _metrics(session: aiohttp.ClientSession, port: int) -> str:
    try:
        async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
            return await response.text()
    except aiohttp.ClientConnectionError:
        return ""
