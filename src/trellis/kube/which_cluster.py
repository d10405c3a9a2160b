"""Which cluster does this program talk to? What it was told, else where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trellis.kube.connection import Connection
from trellis.kube.in_cluster import SERVICE_ACCOUNT, connection_in_cluster, is_in_cluster
from trellis.kube.kubeconfig import connection_from_kubeconfig


def find_connection(
    environment: Mapping[str, str],
    *,
    kubeconfig: Path | None = None,
    context: str = "",
    home: Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """A file or context that was named, then `KUBECONFIG`, then the pod's own cluster, then `~/.kube/config`.

    The pod comes before the home directory, so that a controller does not follow a file that an image happens to
    contain; whoever sets `KUBECONFIG` in a pod means it.
    """
    told = kubeconfig or context or environment.get("KUBECONFIG")
    if not told and is_in_cluster(environment, service_account):
        return connection_in_cluster(environment, service_account)
    return connection_from_kubeconfig(environment, file=kubeconfig, context=context, home=home)
