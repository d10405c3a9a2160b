"""The client through real sockets: TLS, timeouts, servers that go and come back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from support.worlds.providers.external_grpc import (
    After,
    Before,
    Hang,
    MachineServer,
    MachineWorld,
    Sound,
    serve,
    unknown_fields,
)
from testbed.access.certificates import Authority, Pair
from trellis.base.errors import InvalidConfiguration, InvalidMessage
from trellis.providers.external_grpc.channel import ServerChannel
from trellis.providers.external_grpc.configuration import ServerConfiguration
from trellis.providers.external_grpc.messages import Empty, GroupRequest
from trellis.providers.external_grpc.rpcs import NODE_GROUPS, REFRESH, TARGET_SIZE, TEMPLATE, CallFailed, CallStatus


def credentials(authority: Authority, pair: Pair) -> grpc.ServerCredentials:
    return grpc.ssl_server_credentials(
        [(pair.key, pair.certificate)], authority.pair.certificate, require_client_auth=True
    )


class Files:
    """A CA, and the certificates of a server and of a client, as files."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self.directory = directory
        self.authority = Authority.new(name)
        self.ca = directory / f"{name}.crt"
        self.ca.write_bytes(self.authority.pair.certificate)
        self.server = self.authority.issue_server("server", "localhost", "127.0.0.1")
        self.cert, self.key = self.authority.issue_client("autoscaler").save(directory, f"{name}-client")

    def configuration(self, port: int, timeout: float = 5.0) -> ServerConfiguration:
        return ServerConfiguration(f"localhost:{port}", str(self.cert), str(self.key), str(self.ca), timeout)


async def call_status(channel: ServerChannel) -> CallStatus:
    """How a call of a server in memory ends."""
    try:
        await channel.call(NODE_GROUPS, Empty())
    except CallFailed as error:
        return error.status
    finally:
        await channel.close()
    return CallStatus.OK


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_both_sides_are_verified(files: Files) -> None:
    async def story() -> None:
        async with serve(MachineServer().answer, credentials(files.authority, files.server)) as port:
            assert await call_status(ServerChannel(files.configuration(port))) is CallStatus.OK

    asyncio.run(story())


def test_a_server_of_another_ca_is_refused(files: Files, tmp_path: Path) -> None:
    other = Files(tmp_path, "other")

    async def story() -> None:
        server = MachineServer()
        async with serve(server.answer, credentials(files.authority, other.server)) as port:
            assert await call_status(ServerChannel(files.configuration(port))) is CallStatus.UNAVAILABLE
        assert server.calls == []

    asyncio.run(story())


def test_a_server_with_the_certificate_of_another_name_is_refused(files: Files) -> None:
    async def story() -> None:
        elsewhere = files.authority.issue_server("server", "machines.example.com")
        async with serve(MachineServer().answer, credentials(files.authority, elsewhere)) as port:
            assert await call_status(ServerChannel(files.configuration(port))) is CallStatus.UNAVAILABLE

    asyncio.run(story())


def test_a_client_of_another_ca_is_refused(files: Files, tmp_path: Path) -> None:
    other = Files(tmp_path, "other")
    mixed = ServerConfiguration("", str(other.cert), str(other.key), str(files.ca))

    async def story() -> None:
        async with serve(MachineServer().answer, credentials(files.authority, files.server)) as port:
            channel = ServerChannel(ServerConfiguration(f"localhost:{port}", mixed.cert, mixed.key, mixed.cacert))
            assert await call_status(channel) is CallStatus.UNAVAILABLE

    asyncio.run(story())


def test_a_client_without_a_certificate_is_refused_where_one_is_wanted(files: Files) -> None:
    async def story() -> None:
        async with serve(MachineServer().answer, credentials(files.authority, files.server)) as port:
            channel = ServerChannel(ServerConfiguration(f"localhost:{port}", cacert=str(files.ca)))
            assert await call_status(channel) is CallStatus.UNAVAILABLE

    asyncio.run(story())


def test_plaintext_to_tls_and_tls_to_plaintext_fail(files: Files) -> None:
    async def story() -> None:
        async with serve(MachineServer().answer, credentials(files.authority, files.server)) as port:
            assert await call_status(ServerChannel(ServerConfiguration(f"localhost:{port}"))) is CallStatus.UNAVAILABLE
        async with serve(MachineServer().answer) as port:
            assert await call_status(ServerChannel(files.configuration(port))) is CallStatus.UNAVAILABLE

    asyncio.run(story())


def test_a_certificate_that_was_replaced_is_read_again(files: Files, tmp_path: Path) -> None:
    async def story() -> None:
        other = Files(tmp_path, "other")
        server = MachineServer()
        async with serve(server.answer, credentials(other.authority, other.server)) as port:
            channel = ServerChannel(files.configuration(port))
            with pytest.raises(CallFailed):
                await channel.call(REFRESH, Empty())
            files.ca.write_bytes(other.ca.read_bytes())
            files.cert.write_bytes(other.cert.read_bytes())
            files.key.write_bytes(other.key.read_bytes())
            await channel.call(REFRESH, Empty())
            # Files that are being replaced leave the connection as it is.
            files.key.unlink()
            await channel.call(REFRESH, Empty())
            await channel.close()

    asyncio.run(story())


def test_a_certificate_that_is_not_there_is_refused_by_its_key(files: Files) -> None:
    async def story() -> None:
        with pytest.raises(InvalidConfiguration, match="the file of cacert cannot be read"):
            ServerChannel(ServerConfiguration("localhost:1", cacert=str(files.directory / "none")))

    asyncio.run(story())


def test_a_call_that_hangs_ends_by_the_timeout() -> None:
    async def story() -> None:
        server = MachineServer()
        server.fail("NodeGroups", Hang())
        async with serve(server.answer) as port:
            channel = ServerChannel(ServerConfiguration(f"localhost:{port}", timeout=0.2))
            assert await call_status(channel) is CallStatus.DEADLINE_EXCEEDED

    asyncio.run(story())


@pytest.mark.parametrize("status", [status for status in CallStatus if status is not CallStatus.OK])
def test_an_error_keeps_its_status_and_its_text(status: CallStatus) -> None:
    async def story() -> None:
        server = MachineServer()
        server.fail("NodeGroups", Before(status))
        async with serve(server.answer) as port:
            channel = ServerChannel(ServerConfiguration(f"localhost:{port}"))
            with pytest.raises(CallFailed, match=f"NodeGroups: {status}: as the test says") as failed:
                await channel.call(NODE_GROUPS, Empty())
            assert failed.value.status is status
            # Requests are never repeated by the library.
            assert server.calls == ["NodeGroups"]
            await channel.close()

    asyncio.run(story())


def test_unknown_fields_and_answers_that_are_none() -> None:
    async def story() -> None:
        server = MachineServer()
        server.extra = unknown_fields()
        async with serve(server.answer) as port:
            channel = ServerChannel(ServerConfiguration(f"localhost:{port}"))
            assert [group.id for group in (await channel.call(NODE_GROUPS, Empty())).groups] == ["pool"]
            assert (await channel.call(TARGET_SIZE, GroupRequest("pool"))).size == 0
            server.extra = b"\x12\x7f"
            with pytest.raises(InvalidMessage, match="the answer cannot be read"):
                await channel.call(TEMPLATE, GroupRequest("pool"))
            await channel.close()

    asyncio.run(story())


def test_a_server_that_is_restarted_after_an_increase_is_not_asked_for_it_again() -> None:
    async def story() -> None:
        machines = MachineServer()
        async with serve(machines.answer) as port:
            channel = ServerChannel(ServerConfiguration(f"localhost:{port}", timeout=0.5))
            world = MachineWorld(caller=channel)
            machines.now = world.now
            # It is carried out, and the process ends before it answers.
            machines.fail("NodeGroupIncreaseSize", After(CallStatus.UNAVAILABLE))
            machines.fail("NodeGroupTargetSize", Sound(), Before(CallStatus.UNAVAILABLE))
            assert await world.order(3) is not None
        assert "UNAVAILABLE" in str(await world.order(3))
        async with serve(machines.answer, port=port):
            # The connection is made anew within some seconds.
            async with asyncio.timeout(20):
                while (again := await world.order(3)) is not None:
                    assert "UNAVAILABLE" in str(again)
                    await asyncio.sleep(0.1)
            assert machines.groups["pool"].wanted == 3
            assert machines.count("NodeGroupIncreaseSize") == 1
        await channel.close()

    asyncio.run(story())
