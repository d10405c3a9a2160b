"""The rights of an account on a cluster, and waiting for them: the API server applies the roles that it has seen."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.client import Api, Json
from testbed.waiting import until

ROLES = ("ClusterRole", "Role")

# Stands for any resource of a rule about all that have a subresource, and for any group.
_ANY = "anything"


def is_allowed(api: Api, user: str, attributes: Json) -> bool:
    """Whether a user may, by the attributes of a SubjectAccessReview."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": ["system:authenticated"], "resourceAttributes": attributes},
    }
    answer: bool = api.create(review)["status"]["allowed"]
    return answer


def wait_until_granted(api: Api, user: str, roles: Iterable[Json]) -> None:
    """Return when the API server goes by each of these roles, which were granted to the user a moment ago.

    A role is seen as a whole, and so is what binds it: one right by each of its rules tells.
    """
    wanted = [_attributes(role, rule) for role in roles for rule in role.get("rules") or () if "resources" in rule]
    until(f"the rights of {user}", lambda: all(is_allowed(api, user, role_to_check) for role_to_check in wanted))


def _attributes(role: Json, rule: Json) -> Json:
    resource, _, subresource = rule["resources"][-1].partition("/")
    return {
        "verb": rule["verbs"][-1],
        "group": _replace_wildcard(rule["apiGroups"][-1]),
        "resource": _replace_wildcard(resource),
        "subresource": subresource,
        "namespace": role["metadata"].get("namespace", ""),
        "name": next(iter(rule.get("resourceNames", ())), ""),
    }


def _replace_wildcard(text: str) -> str:
    return _ANY if text == "*" else text
