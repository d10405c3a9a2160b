"""Builds the ServiceAccount of a component, its roles and their bindings from the table of rights.

    build_access(rights_of("updater"), namespace="kube-system")
    build_access(rights_of("updater"), namespace="team-a-autoscaling", watched=("team-a", "team-a-jobs"))

An installation for some namespaces has Roles only: one in each watched namespace, and one in its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from trellis.base.errors import InvalidInput
from trellis.install.permissions import AccessRule, ComponentRights, Scope, UserRole

Manifest: TypeAlias = dict[str, Any]

_RBAC: Final = "rbac.authorization.k8s.io"


class Account(msgspec.Struct, frozen=True):
    """A ServiceAccount: one process may run several components under one account."""

    name: str
    namespace: str

    def build_manifest(self) -> Manifest:
        """The ServiceAccount."""
        metadata = {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def build_access(
    rights: ComponentRights,
    *,
    namespace: str,
    watched: Collection[str] = (),
    on: Iterable[str] | None = None,
    account: str = "",
    read_only: bool = False,
) -> tuple[Manifest, ...]:
    """The account of a component in the installation's namespace, its roles and their bindings.

    `watched` are the namespaces of an installation that has Roles only; without them the component serves the whole
    cluster. `on` are the keys of the switches that are on; by default those that are on by default. `account` replaces
    the component's own, where one process runs several components. `read_only` are the rights for `--read-only`.
    """
    holder = Account(account or rights.account, namespace)
    return (holder.build_manifest(), *build_roles(rights, holder, watched=watched, on=on, read_only=read_only))


def build_roles(
    rights: ComponentRights,
    account: Account,
    *,
    watched: Collection[str] = (),
    on: Iterable[str] | None = None,
    read_only: bool = False,
) -> tuple[Manifest, ...]:
    """The roles of a component, each with its binding to an account. A role without rules is left out."""
    keys = None if on is None else frozenset(on)
    manifests: list[Manifest] = []
    if watched:
        check_namespaced(rights)
        # The installation's own namespace may be a watched one.
        for place in watched:
            for name, rules in list_watched_roles(rights, on=keys, read_only=read_only).items():
                manifests += bind("Role", f"{name}-watched", rules, account, place)
    else:
        scopes = (Scope.WATCHED, Scope.CLUSTER)
        everywhere = [rule for scope in scopes for rule in rights.list_rules(scope, keys, read_only=read_only)]
        for name, rules in _group_by_role(rights, everywhere).items():
            manifests += bind("ClusterRole", name, rules, account)
    own = rights.list_rules(Scope.OWN_NAMESPACE, keys, read_only=read_only)
    return (*manifests, *(bind("Role", rights.role, own, account, account.namespace) if own else ()))


def list_watched_roles(
    rights: ComponentRights, *, on: Iterable[str] | None = None, read_only: bool = False
) -> Mapping[str, tuple[AccessRule, ...]]:
    """The rules for watched namespaces by role: those of a switch may be installed as a role of their own."""
    keys = None if on is None else frozenset(on)
    return _group_by_role(rights, rights.list_rules(Scope.WATCHED, keys, read_only=read_only))


def bind(kind: str, name: str, rules: Iterable[AccessRule], account: Account, namespace: str = "") -> list[Manifest]:
    """A Role or ClusterRole of these rules, and its binding to an account."""
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    role = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [rule.build_policy_rule() for rule in rules],
    }
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}],
    }
    return [role, binding]


def build_user_role(role: UserRole) -> Manifest:
    """A ClusterRole for users, which Kubernetes aggregates into its own."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": role.name,
            "labels": {f"{_RBAC}/aggregate-to-{name}": "true" for name in role.aggregated_to},
        },
        "rules": [rule.build_policy_rule() for rule in role.rules],
    }


def check_namespaced(rights: ComponentRights) -> None:
    """Raise `InvalidInput` if a component cannot work with Roles only."""
    if rights.cluster_wide:
        rule = f"cannot be installed for some namespaces only. {rights.cluster_wide}"
        raise InvalidInput(rights.component, rule)


def _group_by_role(rights: ComponentRights, rules: Iterable[AccessRule]) -> dict[str, tuple[AccessRule, ...]]:
    grouped: dict[str, tuple[AccessRule, ...]] = {}
    for rule in rules:
        suffix = rule.switch.role if rule.switch else ""
        name = f"{rights.role}-{suffix}" if suffix else rights.role
        grouped[name] = (*grouped.get(name, ()), rule)
    return grouped
