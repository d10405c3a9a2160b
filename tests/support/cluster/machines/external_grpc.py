"""Node groups behind the external gRPC protocol on a real control plane: our server in front of kwok's nodes.

    node_groups = ExternalGrpcNodeGroups(cluster, namespace, tmp_path)   # its server runs, in place of `NodeGroups`
    node_groups.declare(maxSize=5)                                       # a group; `declare_with_failing` for another
    nodes(namespace, *node_groups.flags)                                 # `trellis nodes` as a client
    node_groups.nodes()                                                  # the machines: kwok's Nodes
    node_groups.server.process.kill()                                    # kill -9 of the server
    node_groups.start_server()                                           # and a new one at the same address
    node_groups.close()

Client and server have certificates of one CA. The machines are Nodes, so that a test may also delete one itself.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import yaml

from support.cluster.nodes import NodeGroups
from testbed.access import shipped_accounts
from testbed.access.certificates import Authority
from testbed.cluster import Cluster
from testbed.controllers import Controller, run_controller
from testbed.processes import reserve_ports
from testbed.waiting import until

_CLIENT = "autoscaler"


class ExternalGrpcNodeGroups(NodeGroups):
    """The groups of a namespace behind a server, which runs until `close`."""

    server: Controller

    def __init__(self, cluster: Cluster, namespace: str, directory: Path) -> None:
        super().__init__(cluster, namespace)
        self._directory = directory
        self._stack = ExitStack()
        self._start_count = 0
        [self.port] = reserve_ports(1)
        authority = Authority.new("machines")
        self._ca = directory / "machines-ca.crt"
        self._ca.write_bytes(authority.pair.certificate)
        self._server_files = authority.issue_server("server", "localhost", "127.0.0.1").save(directory, "machines")
        cert, key = authority.issue_client(_CLIENT).save(directory, _CLIENT)
        self.config = directory / "external-grpc.yaml"
        described = {"address": f"localhost:{self.port}", "cert": str(cert), "key": str(key), "cacert": str(self._ca)}
        self.config.write_text(yaml.safe_dump({**described, "grpc_timeout": "5s"}))
        self.start_server()

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of `trellis nodes` by which it finds these groups."""
        return "--cloud-provider=externalgrpc", f"--external-grpc-config={self.config}"

    def start_server(self, *flags: str) -> Controller:
        """Start the server, at the same address each time."""
        cert, key = self._server_files
        own = (
            f"--kwok-node-groups={self.namespace}/groups",
            f"--grpc-address=127.0.0.1:{self.port}",
            f"--tls-cert-file={cert}",
            f"--tls-private-key={key}",
            f"--client-ca-file={self._ca}",
            f"--client-names={_CLIENT}",
        )
        command = [str(Path(sys.executable).with_name("trellis")), "node-provider-server"]
        # The server may do what the autoscaler may do with kwok's nodes.
        kubeconfig = shipped_accounts.create_account(self.cluster, "nodes")
        self._start_count += 1
        log = self._directory / f"node-provider-server-{self._start_count}.log"
        self.server = self._stack.enter_context(run_controller(command, kubeconfig, log, (*own, *flags)))
        until("the server to serve node groups", lambda: "serving node groups" in self.server.read_logs())
        return self.server

    def close(self) -> None:
        """Stop the server, and remove the nodes."""
        self._stack.close()
        super().close()
