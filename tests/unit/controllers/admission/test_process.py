"""The whole process: certificate, probes, Lease and answers over TLS, from its start to its end."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import aiohttp
import msgspec

from support.controllers.admission import World, apply, build_pod_review, get_requests, patch_in, pod
from testbed.access.certificates import Authority
from testbed.processes import reserve_ports
from trellis.controllers.admission.process import admission_spec
from trellis.runtime.component import run_component
from trellis.runtime.shutdown import Shutdown

HOST = "vpa-webhook.kube-system.svc"


def test_process_from_start_to_end(tmp_path: Path) -> None:
    authority = Authority.new("tests")
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes(authority.pair.certificate)
    certificate, key = authority.issue_server("webhook", HOST).save(tmp_path, "webhook")
    port, probes = reserve_ports(2)
    world = World(
        f"--port={port}",
        f"--address=127.0.0.1:{probes}",
        f"--client-ca-file={bundle}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key={key}",
        "--register-webhook=false",
    )
    world.add_app()
    trusted = ssl.create_default_context(cadata=authority.pair.certificate.decode())

    async def main() -> None:
        stop = Shutdown()
        running = asyncio.create_task(
            run_component(admission_spec(world.settings), world.settings, stop, world.server.client)
        )
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            await _until_ready(session, probes)
            url = f"https://127.0.0.1:{port}/?timeout=5s"
            headers = {"Content-Type": "application/json"}
            post = session.post(url, data=build_pod_review(pod()), headers=headers, ssl=trusted, server_hostname=HOST)
            async with post as response:
                review = msgspec.json.decode(await response.read())["response"]
            assert get_requests(apply(pod(), patch_in(review))) == {"cpu": "400m", "memory": "300Mi"}
            lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vpa-admission-controller"
            while lease not in world.server.objects:  # noqa: ASYNC110 - a model server tells nobody
                await asyncio.sleep(0.01)
            async with session.get(f"http://127.0.0.1:{probes}/metrics") as response:
                assert "vpa_admission_controller_admission_pods_total" in await response.text()
            stop.request("the test is over")
            await running
        try:
            await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            return
        raise AssertionError("somebody still listens")

    asyncio.run(main())


async def _until_ready(session: aiohttp.ClientSession, port: int) -> None:
    while True:
        try:
            async with session.get(f"http://127.0.0.1:{port}/readyz") as response:
                if response.status == 200:
                    return
        except aiohttp.ClientConnectionError:
            pass
        await asyncio.sleep(0.01)
