"""The connection of a pod to its own cluster: two environment variables and the files of its service account."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trellis.base.errors import BadKubeconfig
from trellis.kube.auth.connection import Connection, Login

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(environment: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT) -> bool:
    """Whether this process runs in a pod with a service account."""
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (service_account / "token").is_file()


def load_in_cluster_connection(environment: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT) -> Connection:
    """The connection to the pod's own cluster. The token is re-read: the kubelet replaces it before it expires."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    if not host:
        rule = (
            "this process does not run in a pod (KUBERNETES_SERVICE_HOST is not set); choose a "
            "kubeconfig with --kubeconfig"
        )
        raise BadKubeconfig(str(service_account), rule)
    token = service_account / "token"
    if not token.is_file():
        rule = (
            "there is no ServiceAccount token; the pod has automountServiceAccountToken: false. Mount "
            "it, or choose a kubeconfig with --kubeconfig"
        )
        raise BadKubeconfig(str(token), rule)
    port = environment.get("KUBERNETES_SERVICE_PORT") or "443"
    return Connection(
        # An IPv6 address is written in brackets, or its last part would be the port.
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        source="in-cluster",
        namespace=_read(service_account / "namespace").decode().strip() or "default",
        authority=_read(service_account / "ca.crt") or None,
        login=Login(token_file=str(token)),
    )


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise BadKubeconfig(str(file), f"cannot be read: {error.strerror}") from error
