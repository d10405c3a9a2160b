"""The cluster that a test uses.

A running control plane as seen from outside: everything here follows from its directory and its URL, so
another process than the one that runs it can use it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import msgspec
import yaml

from testbed.access.certificates import Authority
from testbed.access.kubeconfigs import (
    Server,
    certificate_kubeconfig,
    service_account_token,
    token_kubeconfig,
    write_private,
)
from testbed.client import Api, Json
from testbed.kwok import nodes
from testbed.waiting import TIMEOUT_SECONDS, until

# Where a control plane says that it is up. Written last, by a rename.
STATE = "state.json"


class State(msgspec.Struct, frozen=True):
    """What a control plane says about itself."""

    url: str


class Cluster:
    """A control plane to test against, with the administrator's rights."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.url = url

    @property
    def kubeconfig(self) -> Path:
        """The administrator's, who is in system:masters: RBAC and flow control do not bind them."""
        return self._get_path("admin.kubeconfig")

    @cached_property
    def api(self) -> Api:
        """The administrator's client, for setting up and for looking."""
        return Api(self.url, self._get_path("ca.crt"), (self._get_path("admin.crt"), self._get_path("admin.key")))

    def api_for(self, service_account: str, namespace: str) -> Api:
        """A client with the rights of this ServiceAccount."""
        token = service_account_token(self.api, service_account, namespace)
        return Api(self.url, self._get_path("ca.crt"), token=token)

    def kubeconfig_for(self, service_account: str, namespace: str) -> Path:
        """A kubeconfig with the rights of this ServiceAccount, which must exist. Its namespace is the default."""
        token = service_account_token(self.api, service_account, namespace)
        user = f"system:serviceaccount:{namespace}:{service_account}"
        text = token_kubeconfig(self._server, user, token, namespace)
        return write_private(self.directory / "kubeconfigs" / f"{namespace}-{service_account}.kubeconfig", text)

    def kubeconfig_for_user(self, user: str, *groups: str) -> Path:
        """A kubeconfig for any user and groups, by a client certificate."""
        ca = Authority.load(self._get_path("ca.crt").read_bytes(), self._get_path("ca.key").read_bytes())
        text = certificate_kubeconfig(self._server, user, ca.issue_client(user, *groups))
        return write_private(self.directory / "kubeconfigs" / f"user-{user.replace(':', '-')}.kubeconfig", text)

    def create_namespace(self, prefix: str = "test") -> str:
        """A namespace of its own, in which pods can be created."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        # Before it exists the API server refuses pods with 403.
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        until(f"ServiceAccount default of {name}", lambda: self.api.find(account))
        return name

    def delete_namespace(self, name: str) -> None:
        """Begin to delete it; its end is not waited for."""
        self.api.delete(f"/api/v1/namespaces/{name}")

    def list_pods(self, namespace: str, app: str) -> list[Json]:
        """The pods labelled app=<app> that are not being deleted."""
        pods = self.api.list_items(f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"app={app}")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def wait_for_ready_pods(
        self, namespace: str, app: str, count: int = 1, seconds: float = TIMEOUT_SECONDS
    ) -> list[Json]:
        """The pods labelled app=<app>, once exactly `count` of them are Ready and no others are there."""

        def list_ready() -> tuple[list[Json]] | None:
            pods = self.list_pods(namespace, app)
            return (pods,) if len(pods) == count and all(map(is_ready, pods)) else None

        return until(f"{count} ready pods of {app} in {namespace}", list_ready, seconds)[0]

    def add_nodes(self, *new_nodes: nodes.Node) -> None:
        """More nodes, ready for pods."""
        nodes.add(self.api, new_nodes)

    def remove_nodes(self, *names: str) -> None:
        """Delete nodes."""
        nodes.remove(self.api, names)

    def apply_files(self, files: Iterable[Path], namespace: str = "") -> list[Json]:
        """Server-side apply every object in these manifests."""
        documents = [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]
        return [self.api.apply(document, namespace) for document in documents]

    def install_definitions(self, files: Iterable[Path]) -> None:
        """Apply CRDs and wait until their kinds are served."""
        expected = {_get_served_kind(definition) for definition in self.apply_files(files)}
        until(f"{expected} to be served", lambda: all(self._serves(*served) for served in expected))

    def _serves(self, version: str, kind: str) -> bool:
        """By discovery, which clients go by; it follows a definition's condition Established a moment later."""
        known = self.api.find(f"/apis/{version}") or {"resources": []}
        return any(resource["kind"] == kind for resource in known["resources"])

    @cached_property
    def _server(self) -> Server:
        return Server(self.url, self._get_path("ca.crt").read_bytes())

    def _get_path(self, name: str) -> Path:
        return self.directory / "access" / name


def is_ready(pod: Json) -> bool:
    """Whether the pod's condition Ready is true."""
    conditions = pod["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _get_served_kind(definition: Json) -> tuple[str, str]:
    """The version that it is stored in, and its kind."""
    spec = definition["spec"]
    stored = next(version["name"] for version in spec["versions"] if version["storage"])
    return f"{spec['group']}/{stored}", spec["names"]["kind"]
