"""The host ports that a pod takes on its node.

The rules of `GetHostPorts` and `HostPortInfo` in Kubernetes 1.36: a port on all addresses conflicts with the same port
and protocol on any address, and the reverse. Init containers that terminate take no port.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from trellis.api.kube.pods import PodSpec

ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104 - how the scheduler writes it; nothing is bound here


class HostPort(NamedTuple):
    """A port of a node."""

    protocol: str
    port: int
    address: str


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """What a pod takes. On the host's network every port is one, as the API server fills in for a pod."""
    return tuple(sorted(set(_host_ports(spec))))


def _host_ports(spec: PodSpec) -> Iterator[HostPort]:
    sidecars = (container for container in spec.init_containers if container.is_sidecar)
    for container in chain(spec.containers, sidecars):
        for written in container.ports:
            port = written.host_port or (written.container_port if spec.host_network else 0)
            if port > 0:
                yield HostPort(written.protocol or "TCP", port, written.host_ip or ALL_ADDRESSES)
