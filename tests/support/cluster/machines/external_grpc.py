"""Node groups behind the external gRPC protocol on a real control plane: our server in front of other groups.

    node_groups = ExternalGrpcNodeGroups(cluster, namespace, tmp_path)   # in front of kwok's, in place of `NodeGroups`
    node_groups.declare(maxSize=5)                                       # a group; `declare_with_failing` for another
    nodes(namespace, *node_groups.flags)                                 # `trellis nodes` as a client
    node_groups.nodes()                                                  # the machines: kwok's Nodes
    node_groups.server.process.kill()                                    # kill -9 of the server
    node_groups.start_server()                                           # and a new one at the same address
    node_groups.close()

Client and server have certificates of one CA. The server has the account of its own that an installation gives it.
`GroupServer` is the server alone, in front of the groups of any provider.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import yaml

from support.cluster.nodes import NodeGroups, grant_reads
from support.cluster.rights import install_account
from testbed.access.certificates import Authority
from testbed.cluster import Cluster
from testbed.controllers import Controller, run_controller
from testbed.processes import reserve_ports
from testbed.waiting import until
from trellis.install.permissions import NODE_PROVIDER_SERVER

_CLIENT = "autoscaler"
_HOME = "kube-system"


class GroupServer:
    """`trellis node-provider-server` with these flags, and its client's configuration. It runs until `close`."""

    running: Controller

    def __init__(self, cluster: Cluster, namespace: str, directory: Path, provider_flags: Sequence[str]) -> None:
        self._cluster = cluster
        self._directory = directory
        self._provider_flags = tuple(provider_flags)
        self._stack = ExitStack()
        self._start_count = 0
        self._switches = [f"nodeProviderServer.cloudProviders={name}" for name in _list_providers(provider_flags)]
        [self._port] = reserve_ports(1)
        authority = Authority.new("machines")
        self._ca = directory / "machines-ca.crt"
        self._ca.write_bytes(authority.pair.certificate)
        self._server_files = authority.issue_server("server", "localhost", "127.0.0.1").save(directory, "machines")
        cert, key = authority.issue_client(_CLIENT).save(directory, _CLIENT)
        self._config = directory / "external-grpc.yaml"
        described = {"address": f"localhost:{self._port}", "cert": str(cert), "key": str(key), "cacert": str(self._ca)}
        self._config.write_text(yaml.safe_dump({**described, "grpc_timeout": "5s"}))
        # Where a test declares its groups; an installation has them in its own namespace.
        grant_reads(cluster, namespace, NODE_PROVIDER_SERVER.account)
        self.start()

    @property
    def client_flags(self) -> tuple[str, ...]:
        """Flags of `trellis nodes` by which it finds the groups of the server."""
        return "--cloud-provider=externalgrpc", f"--external-grpc-config={self._config}"

    def start(self, *flags: str) -> Controller:
        """Start the server, at the same address each time."""
        cert, key = self._server_files
        own = (
            *self._provider_flags,
            f"--grpc-address=127.0.0.1:{self._port}",
            f"--tls-cert-file={cert}",
            f"--tls-private-key={key}",
            f"--client-ca-file={self._ca}",
            f"--client-names={_CLIENT}",
        )
        command = [str(Path(sys.executable).with_name("trellis")), "node-provider-server"]
        kubeconfig = install_account(self._cluster, NODE_PROVIDER_SERVER.component, _HOME, on=self._switches)
        self._start_count += 1
        log = self._directory / f"node-provider-server-{self._start_count}.log"
        self.running = self._stack.enter_context(run_controller(command, kubeconfig, log, (*own, *flags)))
        until("the server to serve node groups", lambda: "serving node groups" in self.running.read_logs())
        return self.running

    def close(self) -> None:
        """Stop the server."""
        self._stack.close()


class ExternalGrpcNodeGroups(NodeGroups):
    """The groups of a namespace behind a server, which runs until `close`."""

    def __init__(self, cluster: Cluster, namespace: str, directory: Path) -> None:
        super().__init__(cluster, namespace)
        self._server = GroupServer(cluster, namespace, directory, super().flags)

    @property
    def server(self) -> Controller:
        """The process of the server."""
        return self._server.running

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of `trellis nodes` by which it finds these groups."""
        return self._server.client_flags

    def start_server(self, *flags: str) -> Controller:
        """Start the server, at the same address each time."""
        return self._server.start(*flags)

    def close(self) -> None:
        """Stop the server, and remove the nodes."""
        self._server.close()
        super().close()


def _list_providers(flags: Sequence[str]) -> list[str]:
    values = [flag.partition("=")[2] for flag in flags if flag.startswith("--cloud-provider=")]
    return values[0].split(",")
