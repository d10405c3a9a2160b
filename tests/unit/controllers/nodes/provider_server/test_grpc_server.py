"""The gRPC server: certificates, names of clients, health, metrics, limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from support.worlds.providers.external_grpc import KwokServerWorld
from testbed.access.certificates import Authority
from trellis.base.errors import InvalidInput
from trellis.controllers.nodes.provider_server.grpc_server import (
    HEALTH,
    HealthAnswer,
    HealthRequest,
    ServingStatus,
    serve_groups,
)
from trellis.controllers.nodes.provider_server.metrics import PROVIDER_SERVER_METRICS
from trellis.controllers.nodes.provider_server.settings import GrpcServerSettings
from trellis.providers.external_grpc import rpcs
from trellis.providers.external_grpc.channel import ServerChannel
from trellis.providers.external_grpc.configuration import ServerConfiguration
from trellis.providers.external_grpc.messages import DeltaRequest, Empty, GroupRequest
from trellis.providers.external_grpc.protobuf import decode
from trellis.providers.external_grpc.rpcs import CallFailed, CallStatus
from trellis.runtime.telemetry.metrics import Metrics


class Served:
    """A server in front of kwok's nodes, and what it counts."""

    def __init__(self) -> None:
        self.world = KwokServerWorld()
        self.metrics = Metrics(PROVIDER_SERVER_METRICS, about_process=False)
        self.problem: str | None = None

    @asynccontextmanager
    async def open(self, **fields: Any) -> AsyncIterator[int]:
        settings = GrpcServerSettings(grpc_address="127.0.0.1:0", **fields)
        async with serve_groups(settings, self.world.service.methods, self.metrics, lambda: self.problem) as address:
            yield address.port

    def count(self, rpc: str, status: str) -> bool:
        line = f'trellis_node_provider_calls_total{{rpc="{rpc}",status="{status}"}} 1'
        return line in self.metrics.format_text().decode()


@pytest.fixture
def certificates(tmp_path: Path) -> tuple[Authority, dict[str, str]]:
    authority = Authority.new("machines")
    ca = tmp_path / "ca.crt"
    ca.write_bytes(authority.pair.certificate)
    cert, key = authority.issue_server("server", "localhost", "127.0.0.1").save(tmp_path, "server")
    return authority, {"tls_cert_file": str(cert), "tls_private_key": str(key), "client_ca_file": str(ca)}


def configure(
    authority: Authority, files: dict[str, str], directory: Path, port: int, name: str = "autoscaler"
) -> ServerConfiguration:
    cert, key = authority.issue_client(name).save(directory, name)
    return ServerConfiguration(f"127.0.0.1:{port}", str(cert), str(key), files["client_ca_file"])


def replace_certificates(authority: Authority, files: dict[str, str], directory: Path) -> None:
    Path(files["client_ca_file"]).write_bytes(authority.pair.certificate)
    authority.issue_server("server", "127.0.0.1").save(directory, "server")


def remove(file: str) -> None:
    Path(file).unlink()


async def status_of(configuration: ServerConfiguration) -> CallStatus:
    channel = ServerChannel(configuration)
    try:
        await channel.call(rpcs.NODE_GROUPS, Empty())
    except CallFailed as error:
        return error.status
    finally:
        await channel.close()
    return CallStatus.OK


def test_a_client_with_a_certificate_orders_nodes(certificates: Any, tmp_path: Path) -> None:
    async def story() -> None:
        authority, files = certificates
        served = Served()
        async with served.open(**files) as port:
            channel = ServerChannel(configure(authority, files, tmp_path, port))
            await channel.call(rpcs.INCREASE_SIZE, DeltaRequest(2, "small"))
            assert (await channel.call(rpcs.TARGET_SIZE, GroupRequest("small"))).size == 2
            with pytest.raises(CallFailed, match="NodeGroupIncreaseSize: OUT_OF_RANGE: small has a maximum"):
                await channel.call(rpcs.INCREASE_SIZE, DeltaRequest(20, "small"))
            with pytest.raises(CallFailed, match="UNIMPLEMENTED"):
                await channel.call(rpcs.POD_PRICE, Empty())
            await channel.close()
        assert served.count("NodeGroupTargetSize", "OK")
        assert served.count("NodeGroupIncreaseSize", "OK")
        assert served.count("NodeGroupIncreaseSize", "OUT_OF_RANGE")

    asyncio.run(story())


def test_others_are_refused(certificates: Any, tmp_path: Path) -> None:
    async def story() -> None:
        authority, files = certificates
        other = Authority.new("other")
        async with Served().open(**files) as port:
            stranger = configure(other, files, tmp_path, port, "stranger")
            for configuration in (
                stranger,
                ServerConfiguration(f"127.0.0.1:{port}"),
                ServerConfiguration(f"127.0.0.1:{port}", cacert=files["client_ca_file"]),
            ):
                assert await status_of(configuration) is CallStatus.UNAVAILABLE
            assert await status_of(configure(authority, files, tmp_path, port)) is CallStatus.OK

    asyncio.run(story())


def test_only_clients_of_these_names_may_call(certificates: Any, tmp_path: Path) -> None:
    """Any component of a cluster may have a certificate of its CA."""

    async def story() -> None:
        authority, files = certificates
        async with Served().open(client_names=("autoscaler", "other"), **files) as port:
            assert await status_of(configure(authority, files, tmp_path, port)) is CallStatus.OK
            kubelet = configure(authority, files, tmp_path, port, "kubelet")
            assert await status_of(kubelet) is CallStatus.PERMISSION_DENIED

    asyncio.run(story())


def test_certificates_that_were_replaced_are_read_again(certificates: Any, tmp_path: Path) -> None:
    async def story() -> None:
        authority, files = certificates
        renewed = Authority.new("renewed")
        async with Served().open(**files) as port:
            assert await status_of(configure(authority, files, tmp_path, port)) is CallStatus.OK
            replace_certificates(renewed, files, tmp_path)
            assert await status_of(configure(renewed, files, tmp_path, port, "new")) is CallStatus.OK
            # A file that is being replaced leaves the last certificates in place.
            remove(files["tls_private_key"])
            assert await status_of(configure(renewed, files, tmp_path, port, "new")) is CallStatus.OK

    asyncio.run(story())


def test_health_by_the_usual_service() -> None:
    async def story() -> None:
        served = Served()
        async with served.open() as port:
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
            check: Any = channel.unary_unary(f"/{HEALTH}/Check")

            async def ask(service: str = "") -> int:
                return decode(HealthAnswer, await check(HealthRequest(service).encode())).status

            assert await ask() == ServingStatus.SERVING
            assert await ask(rpcs.SERVICE) == ServingStatus.SERVING
            served.problem = "caches not synced"
            assert await ask() == ServingStatus.NOT_SERVING
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await ask("other")
            assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
            await channel.close()

    asyncio.run(story())


def test_bytes_that_are_no_request_are_refused() -> None:
    async def story() -> None:
        served = Served()
        async with served.open() as port:
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
            call: Any = channel.unary_unary(rpcs.TARGET_SIZE.path)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(b"\x0a\x7f")
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            await channel.close()
        assert served.count("NodeGroupTargetSize", "INVALID_ARGUMENT")

    asyncio.run(story())


def test_an_address_that_is_taken_is_refused() -> None:
    async def story() -> None:
        async with Served().open() as port:
            settings = GrpcServerSettings(grpc_address=f"127.0.0.1:{port}")
            second = serve_groups(settings, (), Served().metrics, lambda: None)
            with pytest.raises(InvalidInput, match="cannot listen on --grpc-address"):
                await second.__aenter__()

    asyncio.run(story())


def test_a_certificate_that_is_not_there_is_refused_by_its_flag(certificates: Any) -> None:
    async def story() -> None:
        _, files = certificates
        with pytest.raises(InvalidInput, match="the file of --client-ca-file cannot be read"):
            async with Served().open(**{**files, "client_ca_file": "/none"}):
                pass

    asyncio.run(story())


def test_calls_in_progress_end_soon_after_the_server() -> None:
    async def story() -> None:
        served = Served()
        reached = asyncio.Event()

        async def hang(_now: float) -> Any:
            reached.set()
            await asyncio.get_running_loop().create_future()

        served.world.provider_client.groups = hang  # type: ignore[method-assign, assignment]
        async with served.open() as port:
            channel = ServerChannel(ServerConfiguration(f"127.0.0.1:{port}"))
            call = asyncio.create_task(channel.call(rpcs.NODE_GROUPS, Empty()))
            await reached.wait()
        with pytest.raises(CallFailed) as ended:
            await call
        assert ended.value.is_unanswered
        await channel.close()

    asyncio.run(story())
