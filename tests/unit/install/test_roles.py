"""Roles and bindings that are built from the table of rights."""

from __future__ import annotations

from typing import Any

import pytest

from trellis.base.errors import InvalidInput
from trellis.install.permissions import COMPONENT_RIGHTS, ComponentRights, Scope, rights_of
from trellis.install.roles import Account, build_access, build_roles, list_watched_roles

NAMESPACED = [rights for rights in COMPONENT_RIGHTS if not rights.cluster_wide]


def find(manifests: tuple[dict[str, Any], ...], kind: str, namespace: str = "") -> dict[str, Any]:
    """The manifests of a kind in a namespace, by name."""
    return {
        it["metadata"]["name"]: it
        for it in manifests
        if it["kind"] == kind and it["metadata"].get("namespace", "") == namespace
    }


@pytest.mark.parametrize("rights", NAMESPACED, ids=lambda rights: rights.component)
def test_an_installation_for_some_namespaces_has_roles_only(rights: ComponentRights) -> None:
    manifests = build_access(rights, namespace="ops", watched=("team-a", "team-b"))
    assert {it["kind"] for it in manifests} == {"ServiceAccount", "Role", "RoleBinding"}
    watched = [rule.build_policy_rule() for rule in rights.list_rules(Scope.WATCHED)]
    for place in ("team-a", "team-b"):
        granted = [rule for role in find(manifests, "Role", place).values() for rule in role["rules"]]
        assert sorted(map(str, granted)) == sorted(map(str, watched))
        for binding in find(manifests, "RoleBinding", place).values():
            assert binding["subjects"] == [{"kind": "ServiceAccount", "name": rights.account, "namespace": "ops"}]
    [own] = find(manifests, "Role", "ops").values()
    assert own["rules"] == [rule.build_policy_rule() for rule in rights.list_rules(Scope.OWN_NAMESPACE)]


def test_the_installation_may_watch_its_own_namespace() -> None:
    manifests = build_access(rights_of("updater"), namespace="team-a", watched=("team-a",))
    assert sorted(find(manifests, "Role", "team-a")) == ["trellis-updater", "trellis-updater-watched"]
    assert sorted(find(manifests, "RoleBinding", "team-a")) == ["trellis-updater", "trellis-updater-watched"]


@pytest.mark.parametrize("component", ["buffers", "nodes"])
def test_a_component_that_needs_the_cluster_is_refused_with_the_reason(component: str) -> None:
    rights = rights_of(component)
    with pytest.raises(InvalidInput) as refused:
        build_access(rights, namespace="ops", watched=("team-a",))
    assert rights.cluster_wide in str(refused.value)


def test_several_components_may_share_an_account() -> None:
    account = Account("trellis", "ops")
    manifests = [it for rights in COMPONENT_RIGHTS for it in build_roles(rights, account)]
    bindings = [it for it in manifests if it["kind"].endswith("Binding")]
    assert len({(it["kind"], it["metadata"]["name"]) for it in bindings}) == len(bindings)
    assert all(it["subjects"] == [{"kind": "ServiceAccount", "name": "trellis", "namespace": "ops"}] for it in bindings)
    alone = build_access(rights_of("hvpa"), namespace="ops", account="trellis")
    assert find(alone, "ServiceAccount", "ops").keys() == {"trellis"}


def test_a_switch_that_is_off_takes_its_role_along() -> None:
    off = build_access(rights_of("buffers"), namespace="ops", on=())
    assert list(find(off, "ClusterRole")) == ["trellis-buffers"]
    assert list(list_watched_roles(rights_of("buffers"), on=["buffers.capacityBuffers"])) == [
        "trellis-buffers",
        "trellis-buffers-capacity-buffers",
    ]


def test_a_read_only_installation_binds_reading_roles_and_no_empty_one() -> None:
    manifests = build_access(rights_of("hvpa"), namespace="ops", read_only=True)
    assert find(manifests, "Role", "ops") == {}
    [role] = find(manifests, "ClusterRole").values()
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    roles = find(
        build_access(rights_of("hvpa"), namespace="ops", watched=("team-a",), read_only=True), "Role", "team-a"
    )
    assert list(roles) == ["trellis-hvpa-watched"]
