"""Settings of the server of node providers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final

from trellis.controllers.nodes.settings import ProviderSettings
from trellis.providers.cluster_api.settings import ClusterApiSettings
from trellis.providers.external_grpc.configuration import is_local
from trellis.providers.kwok.settings import KwokSettings
from trellis.providers.node_claims.settings import NodeClaimSettings
from trellis.runtime.addresses import check_address
from trellis.runtime.settings.component import AccessSettings
from trellis.runtime.settings.declarations import Setting, SettingConflict, Settings
from trellis.runtime.telemetry.health_server import HealthSettings
from trellis.runtime.telemetry.logs import LogSettings

EXTERNAL_GRPC: Final = "externalgrpc"


class GrpcServerSettings(Settings, frozen=True):
    """The gRPC server, and who may call it."""

    title: ClassVar[str] = "gRPC server"

    grpc_address: Annotated[
        str,
        Setting(
            "Address of the gRPC server.",
            why="Loopback: any other address needs certificates.",
            check=check_address,
        ),
    ] = "127.0.0.1:8086"
    tls_cert_file: Annotated[
        str, Setting("Path of the server certificate, PEM-encoded.", why="Unset: plaintext, on loopback only.")
    ] = ""
    tls_private_key: Annotated[
        str,
        Setting(
            "Path of the server certificate's private key, PEM-encoded.", why="Unset: plaintext, on loopback only."
        ),
    ] = ""
    client_ca_file: Annotated[
        str,
        Setting(
            "Path of the CA of client certificates, PEM-encoded. A client without a certificate of it is refused.",
            why="Unset: plaintext, on loopback only.",
        ),
    ] = ""
    client_names: Annotated[
        tuple[str, ...],
        Setting(
            "Names of the clients that may call, separated by commas: the common name of the certificate, or a name of "
            "its subject alternative names.",
            why="Empty: every client with a certificate of `--client-ca-file`.",
        ),
    ] = ()
    max_concurrent_calls: Annotated[
        int,
        Setting(
            "Maximum number of calls at the same time; others are refused.",
            why="A client sends a call or two for each node group.",
            minimum=1,
        ),
    ] = 100

    @property
    def uses_tls(self) -> bool:
        """Whether clients are verified by their certificates."""
        return bool(self.tls_cert_file and self.tls_private_key and self.client_ca_file)

    def conflicts(self) -> Iterator[SettingConflict]:
        """Certificates of both sides, or plaintext on loopback."""
        files = {
            "tls-cert-file": self.tls_cert_file,
            "tls-private-key": self.tls_private_key,
            "client-ca-file": self.client_ca_file,
        }
        missing = [name for name, path in files.items() if not path]
        if missing and len(missing) < len(files):
            flags = ", ".join(f"--{name}" for name in files)
            yield SettingConflict(missing[0], f"must be set, because clients are verified: {flags} go together")
        if not any(files.values()):
            if not is_local(self.grpc_address):
                yield SettingConflict(
                    "grpc-address",
                    f'"{self.grpc_address}" is not a loopback address: without --tls-cert-file, --tls-private-key and '
                    "--client-ca-file any client could order and delete machines",
                )
            if self.client_names:
                yield SettingConflict("client-names", "needs --client-ca-file: without it clients have no names")


class NodeProviderServerSettings(Settings, frozen=True):
    """All settings of the server of node providers."""

    most_used: ClassVar[tuple[str, ...]] = (
        "cloud-provider",
        "grpc-address",
        "tls-cert-file",
        "tls-private-key",
        "client-ca-file",
        "client-names",
        "kwok-node-groups",
        "provider-timeout",
        "read-only",
    )

    server: GrpcServerSettings = GrpcServerSettings()
    provider: ProviderSettings = ProviderSettings()
    kwok: KwokSettings = KwokSettings()
    cluster_api: ClusterApiSettings = ClusterApiSettings()
    karpenter: NodeClaimSettings = NodeClaimSettings()
    access: AccessSettings = AccessSettings()
    health: HealthSettings = HealthSettings(address=":8948")
    logs: LogSettings = LogSettings()

    @property
    def provider_sections(self) -> tuple[Settings, ...]:
        """The settings of the providers of Trellis."""
        return (self.kwok, self.cluster_api, self.karpenter)

    def conflicts(self) -> Iterator[SettingConflict]:
        """The server is no client of itself."""
        if EXTERNAL_GRPC in self.provider.cloud_provider:
            yield SettingConflict("cloud-provider", f"{EXTERNAL_GRPC} is the client of this server")
