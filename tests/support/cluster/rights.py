"""The rights of a component's account on a real API server, written as for `kubectl auth can-i`.

That is a verb, resource.group/subresource, and where there is one namespace/name.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from testbed.access import shipped_accounts
from testbed.access.rights import ROLES, is_allowed, wait_until_granted
from testbed.cluster import Cluster
from trellis.install import roles
from trellis.install.permissions import ADVISOR, NODE_PROVIDER_SERVER, PROMETHEUS_DISCOVERY, Scope, rights_of


class Account(msgspec.Struct, frozen=True):
    """A user on a cluster."""

    cluster: Cluster
    user: str

    def may(self, right: str) -> bool:
        """Whether the API server lets it."""
        verb, resource_text, *where = right.split()
        named, _, subresource = resource_text.partition("/")
        resource, _, group = named.partition(".")
        namespace, _, name = "".join(where).partition("/")
        attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
        return is_allowed(self.cluster.api, self.user, attributes | {"namespace": namespace, "name": name})


def get_account(cluster: Cluster, component: str, name: str) -> Account:
    """The account that a component has, with the rights of its manifest in force."""
    shipped_accounts.create_account(cluster, component)
    return Account(cluster, f"system:serviceaccount:kube-system:{name}")


def grant_switch(cluster: Cluster, component: str, key: str, namespace: str) -> None:
    """Grant the rights of a switch that is off by default, for the objects of one namespace."""
    rights = rights_of(component)
    rules = [rule for rule in rights.list_rules(Scope.WATCHED, [key]) if rule.switch is not None]
    manifests = roles.bind(
        "Role", f"{rights.role}-switch", rules, roles.Account(rights.account, shipped_accounts.NAMESPACE), namespace
    )
    for manifest in manifests:
        cluster.api.apply(manifest)
    user = f"system:serviceaccount:{shipped_accounts.NAMESPACE}:{rights.account}"
    wait_until_granted(cluster.api, user, [manifest for manifest in manifests if manifest["kind"] in ROLES])


def install_account(
    cluster: Cluster,
    component: str,
    home: str,
    watched: Collection[str] = (),
    *,
    name: str = "",
    prefix: str = "",
    on: Collection[str] | None = None,
) -> Path:
    """A kubeconfig for the account of a component in a namespace of its own, with its rights there in force.

    With `watched` it has Roles only. `prefix` makes ClusterRoles of a test those of no other. `on` are the keys of the
    switches that are on; by default those that are on by default.
    """
    others = {rights.component: rights for rights in (ADVISOR, NODE_PROVIDER_SERVER)}
    rights = others.get(component) or rights_of(component)
    rights = msgspec.structs.replace(rights, role=f"{prefix}{rights.role}", account=name or rights.account)
    manifests = roles.build_access(rights, namespace=home, watched=watched, on=on)
    for manifest in manifests:
        cluster.api.apply(manifest)
    user = f"system:serviceaccount:{home}:{rights.account}"
    wait_until_granted(cluster.api, user, [manifest for manifest in manifests if manifest["kind"] in ROLES])
    return cluster.kubeconfig_for(rights.account, home)


def get_advisor_kubeconfig(cluster: Cluster) -> Path:
    """A kubeconfig for the account that `trellis recommend` has as a CronJob."""
    return install_account(cluster, ADVISOR.component, shipped_accounts.NAMESPACE, on=[PROMETHEUS_DISCOVERY.key])
