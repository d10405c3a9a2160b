"""The rights of a component's account on a real API server, written as for `kubectl auth can-i`.

That is a verb, resource.group/subresource, and where there is one namespace/name.
"""

from __future__ import annotations

import msgspec

from testbed.access import shipped_accounts
from testbed.access.rights import is_allowed
from testbed.cluster import Cluster


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
