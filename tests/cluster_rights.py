"""What may a component's account do on a real API server? Rights are written as `kubectl auth can-i` has them.

That is a verb, resource.group/subresource, and where there is one namespace/name.
"""

from __future__ import annotations

import msgspec

from testbed import shipped
from testbed.cluster import Cluster
from testbed.waiting import until

_LEASES = "create leases.coordination.k8s.io kube-system/"


class Account(msgspec.Struct, frozen=True):
    """A user on a cluster."""

    cluster: Cluster
    user: str

    def may(self, right: str) -> bool:
        """Whether the API server lets it."""
        verb, what, *where = right.split()
        named, _, subresource = what.partition("/")
        resource, _, group = named.partition(".")
        namespace, _, name = "".join(where).partition("/")
        attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": self.user,
                "groups": ["system:authenticated"],
                "resourceAttributes": attributes | {"namespace": namespace, "name": name},
            },
        }
        answer: bool = self.cluster.api.create(review)["status"]["allowed"]
        return answer


def account_of(cluster: Cluster, component: str, name: str, *first: str) -> Account:
    """The account that a component has, with the rights of its manifest; `first` are some of them."""
    shipped.account(cluster, component)
    account = Account(cluster, f"system:serviceaccount:kube-system:{name}")
    # The API server decides by what it has seen of roles, a moment later.
    for right in (*first, _LEASES):
        until(f"the right to {right}", lambda right=right: account.may(right))  # type: ignore[misc]
    return account
