"""Kubeconfigs and tokens for the API server."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec

from testbed.access.certificates import Pair
from testbed.client import Api

# Long enough for any test; the API server grants no less than ten minutes.
TOKEN_SECONDS = 3600


class Server(msgspec.Struct, frozen=True):
    """Where the API server is, and the authority that its certificate is checked against."""

    url: str
    ca: bytes


def certificate_kubeconfig(server: Server, user: str, pair: Pair) -> str:
    """A kubeconfig that proves the user by a client certificate."""
    credentials = {"client-certificate-data": _encoded(pair.certificate), "client-key-data": _encoded(pair.key)}
    return _kubeconfig(server, user, credentials, "default")


def token_kubeconfig(server: Server, user: str, token: str, namespace: str) -> str:
    """A kubeconfig that proves the user by a token, as in a pod."""
    return _kubeconfig(server, user, {"token": token}, namespace)


def service_account_token(api: Api, name: str, namespace: str, seconds: int = TOKEN_SECONDS) -> str:
    """A token as the kubelet would mount it. The ServiceAccount must exist."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    token: str = api.send("POST", path, request)["status"]["token"]
    return token


def write_private(path: Path, text: str) -> Path:
    """Write what only this user may read, at once: tests side by side ask for the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    partial.touch(mode=0o600)
    partial.write_text(text)
    return partial.replace(path)


def _kubeconfig(server: Server, user: str, credentials: dict[str, str], namespace: str) -> str:
    """JSON is YAML too; kubectl and every client read it."""
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "testbed",
                "cluster": {"server": server.url, "certificate-authority-data": _encoded(server.ca)},
            }
        ],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": user, "namespace": namespace}}],
        "current-context": "testbed",
    }
    return json.dumps(document, indent=1) + "\n"


def _encoded(content: bytes) -> str:
    return b64encode(content).decode()
