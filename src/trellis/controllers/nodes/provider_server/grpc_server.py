"""The gRPC server: transport, certificates, names of clients, health and metrics. grpcio is an extra.

Import it only once a server is started.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, Final

import grpc
import grpc.aio

from trellis.base.errors import InvalidInput, InvalidMessage
from trellis.controllers.nodes.provider_server import metrics as named
from trellis.controllers.nodes.provider_server.service import Method
from trellis.controllers.nodes.provider_server.settings import GrpcServerSettings
from trellis.providers.external_grpc.protobuf import Message, Number, decode
from trellis.providers.external_grpc.rpcs import SERVICE, CallFailed, CallStatus
from trellis.runtime.addresses import Address, parse_address
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

# The service that probes and load balancers ask.
HEALTH: Final = "grpc.health.v1.Health"
# A process ends within a second.
_GRACE_SECONDS: Final = 0.3
_OPTIONS: Final = (
    # A second process at the same address fails to start, and does not share its calls.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
)

_log: Final = Logger("trellis.node-provider-server")

_Handler = Callable[[bytes, "grpc.aio.ServicerContext[bytes, bytes]"], Awaitable[bytes]]


class ServingStatus(IntEnum):
    """The health of a service."""

    SERVING = 1
    NOT_SERVING = 2


class HealthRequest(Message, frozen=True):
    """Asks for the health of a service; an empty name means the server."""

    service: Annotated[str, Number(1)] = ""


class HealthAnswer(Message, frozen=True):
    """The health of a service."""

    status: Annotated[int, Number(1)] = 0


@asynccontextmanager
async def serve_groups(
    settings: GrpcServerSettings,
    methods: Iterable[Method],
    metrics: Metrics,
    find_problem: Callable[[], str | None],
) -> AsyncIterator[Address]:
    """Serve while the context is open; the value is the address, with the actual port for port 0."""
    server = grpc.aio.server(maximum_concurrent_rpcs=settings.max_concurrent_calls, options=_OPTIONS)
    names = frozenset(settings.client_names)
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        method.rpc.name: grpc.unary_unary_rpc_method_handler(_build_handler(method, names, metrics))
        for method in methods
    }
    check: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(_build_health_handler(find_problem))
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(SERVICE, handlers),
            grpc.method_handlers_generic_handler(HEALTH, {"Check": check}),
        )
    )
    address = parse_address(settings.grpc_address)
    port = _listen(server, settings, address)
    await server.start()
    try:
        yield Address(address.host, port)
    finally:
        await server.stop(_GRACE_SECONDS)


def _listen(server: grpc.aio.Server, settings: GrpcServerSettings, address: Address) -> int:
    host = address.host or ("::" if socket.has_dualstack_ipv6() else "0.0.0.0")  # noqa: S104 - as its user asks
    where = str(Address(host, address.port))
    try:
        if settings.uses_tls:
            return server.add_secure_port(where, _load_credentials(settings))
        return server.add_insecure_port(where)
    except RuntimeError as error:
        raise InvalidInput(settings.grpc_address, f"cannot listen on --grpc-address: {error}") from error


def _load_credentials(settings: GrpcServerSettings) -> grpc.ServerCredentials:
    """Certificates that are read again when their files change; clients need one."""
    last: list[tuple[bytes, bytes, bytes]] = [_read_files(settings)]

    def load(files: tuple[bytes, bytes, bytes]) -> grpc.ServerCertificateConfiguration:
        key, cert, client_ca = files
        return grpc.ssl_server_certificate_configuration([(key, cert)], client_ca)

    def reload() -> grpc.ServerCertificateConfiguration | None:
        # Called in a thread of gRPC for each connection.
        try:
            files = _read_files(settings)
        except InvalidInput as error:
            _log.warning("the certificate could not be read again", why=error)
            return None
        if files == last[0]:
            return None
        last[0] = files
        _log.info("certificate read again")
        return load(files)

    # None means that nothing has changed, which its types do not say.
    fetch: Any = reload
    return grpc.dynamic_ssl_server_credentials(load(last[0]), fetch, require_client_authentication=True)


def _read_files(settings: GrpcServerSettings) -> tuple[bytes, bytes, bytes]:
    key, cert, client_ca = (
        _read_file(flag, path)
        for flag, path in (
            ("tls-private-key", settings.tls_private_key),
            ("tls-cert-file", settings.tls_cert_file),
            ("client-ca-file", settings.client_ca_file),
        )
    )
    return key, cert, client_ca


def _read_file(flag: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(path, f"the file of --{flag} cannot be read: {error.strerror}") from error


def _build_handler(method: Method, names: frozenset[str], metrics: Metrics) -> _Handler:
    async def handle(data: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        loop = asyncio.get_running_loop()
        begin, status = loop.time(), CallStatus.UNKNOWN
        try:
            _require_name(method, names, context)
            answer = await method.answer(decode(method.rpc.request, data))
            status = CallStatus.OK
            return answer.encode()
        except asyncio.CancelledError:
            status = CallStatus.CANCELLED
            raise
        except CallFailed as error:
            status = error.status
            _log.detail(2, "call failed", rpc=method.rpc.name, status=status, why=error.details)
            return await context.abort(grpc.StatusCode[status.name], error.details)
        except InvalidMessage as error:
            status = CallStatus.INVALID_ARGUMENT
            return await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            metrics.add(named.CALLS, 1, method.rpc.name, status)
            metrics.observe(named.LATENCY, loop.time() - begin, method.rpc.name)

    return handle


def _require_name(method: Method, names: frozenset[str], context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
    """Refuse a client whose certificate has none of these names."""
    if not names:
        return
    identity: Any = context.auth_context()
    own = {
        value.decode(errors="replace")
        for field in ("x509_common_name", "x509_subject_alternative_name")
        for value in identity.get(field, ())
    }
    if not own & names:
        shown = ", ".join(sorted(own)) or "without a name"
        raise CallFailed(method.rpc.name, CallStatus.PERMISSION_DENIED, f"the client {shown} is not in --client-names")


def _build_health_handler(find_problem: Callable[[], str | None]) -> _Handler:
    async def check(data: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        try:
            service = decode(HealthRequest, data).service
        except InvalidMessage as error:
            return await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if service not in ("", SERVICE):
            return await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no service {service}")
        is_serving = find_problem() is None
        return HealthAnswer(ServingStatus.SERVING if is_serving else ServingStatus.NOT_SERVING).encode()

    return check
