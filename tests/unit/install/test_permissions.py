"""The table of rights, and the manifests in `deploy/`, which grant what it says and no more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trellis.base.errors import InvalidInput
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.controllers.updater.settings import UpdaterSettings
from trellis.install.permissions import (
    ADVISOR,
    COMPONENT_RIGHTS,
    MEMBER_LEASES,
    READ,
    USER_ROLES,
    AccessRule,
    AccessSwitch,
    ComponentRights,
    Scope,
    UserRole,
    rights_of,
)
from trellis.install.roles import build_access, build_user_role

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
KINDS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
COMPONENTS = pytest.mark.parametrize("rights", COMPONENT_RIGHTS, ids=lambda rights: rights.component)


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((DEPLOY / f"{name}.yaml").read_text()) if document]


def split(rules: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Each right by itself: a rule is the product of its lists."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", ["*"]):
                    yield from (f"{verb} {resource}.{group} {name}" for verb in rule["verbs"])


def normalize(manifests: Iterable[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    """Manifests by kind and name, with each right of their rules by itself."""
    return {
        (it["kind"], it["metadata"]["name"]): it | ({"rules": sorted(set(split(it["rules"])))} if "rules" in it else {})
        for it in manifests
    }


@COMPONENTS
def test_the_manifest_has_the_account_the_roles_and_the_bindings_of_the_table(rights: ComponentRights) -> None:
    shipped = [it for it in documents(rights.component) if it["kind"] in KINDS]
    assert normalize(shipped) == normalize(build_access(rights, namespace="kube-system"))


@pytest.mark.parametrize("role", USER_ROLES, ids=lambda role: role.name)
def test_the_roles_of_users_are_those_of_the_table(role: UserRole) -> None:
    shipped = [it for it in documents("access") if it["metadata"]["name"] == role.name]
    assert normalize(shipped) == normalize([build_user_role(role)])


@COMPONENTS
def test_a_component_that_may_have_roles_only_needs_no_right_to_the_cluster(rights: ComponentRights) -> None:
    needed = [rule for rule in rights.rules if rule.scope is Scope.CLUSTER and not (rule.without or rule.switch)]
    assert bool(needed) is bool(rights.cluster_wide)


@COMPONENTS
def test_no_right_is_granted_by_two_rules(rights: ComponentRights) -> None:
    for scopes in ((Scope.WATCHED, Scope.CLUSTER), (Scope.OWN_NAMESPACE,)):
        each = [list(split([rule.build_policy_rule()])) for rule in rights.rules if rule.scope in scopes]
        granted = [right for rule in each for right in rule]
        # Several Leases are created by one right.
        repeated = {right for right in granted if granted.count(right) > 1}
        assert not repeated


def read_escalating_rights() -> dict[tuple[str, str], str]:
    """What the page about security says of the switch of each right of a component that escalates."""
    page = (DEPLOY.parent / "docs" / "guides" / "security.md").read_text()
    section = page.partition("## Rights that escalate\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {(right, component): switch for right, component, _, switch in rows}


@pytest.mark.parametrize("rights", [*COMPONENT_RIGHTS, ADVISOR], ids=lambda rights: rights.component)
def test_the_page_about_security_lists_every_right_that_escalates(rights: ComponentRights) -> None:
    listed = read_escalating_rights()
    for rule in rights.rules:
        if not rule.escalates:
            continue
        # Of some rights, one row names the other verbs and resources too.
        verb = next((verb for verb in rule.verbs if verb not in READ), rule.verbs[0])
        rows = {
            listed.get((f"`{verb}` `{resource}`", component), "")
            for resource in rule.resources
            for component in (rights.component, "all")
        }
        switch = "".join(rows)
        assert switch, (verb, rule.resources)
        key = rule.switch.key.partition("=")[0] if rule.switch else ""
        assert key in switch, rule.resources


@COMPONENTS
def test_every_rule_has_a_reason_that_is_a_sentence(rights: ComponentRights) -> None:
    for rule in rights.rules:
        for text in (rule.why, rule.escalates, rule.without):
            assert text == "" or (text.endswith(".") and text[0].isupper()), text
        assert rule.why


def test_a_rule_with_a_switch_is_granted_by_default_or_if_the_switch_is_on() -> None:
    switch = AccessSwitch("recommender.fancy", "Something fancy.", default=False)
    usual = AccessRule(scope=Scope.WATCHED, groups=("",), resources=("pods",), verbs=("list",), why="Pods.")
    fancy = AccessRule(
        scope=Scope.WATCHED, groups=("",), resources=("pods",), verbs=("get",), why="Pods.", switch=switch
    )
    rights = ComponentRights(component="recommender", account="a", role="r", rules=(usual, fancy))
    assert rights.list_rules(Scope.WATCHED) == (usual,)
    assert rights.list_rules(Scope.WATCHED, ["recommender.fancy"]) == (usual, fancy)
    assert rights.list_rules(Scope.CLUSTER, ["recommender.fancy"]) == ()
    assert rights.list_switches() == (switch,)


@COMPONENTS
def test_a_read_only_component_reads_what_it_reads_otherwise_and_writes_nothing(rights: ComponentRights) -> None:
    for scope in Scope:
        rules = rights.list_rules(scope, read_only=True)
        assert {verb for rule in rules for verb in rule.verbs} <= set(READ)
        assert not any(rule.escalates for rule in rules)
        usual = {right for rule in rights.list_rules(scope) for right in split([rule.build_policy_rule()])}
        reading = {right for rule in rules for right in split([rule.build_policy_rule()])}
        written = {right for right in usual - reading if right.partition(" ")[0] in READ}
        # Reads that only serve a write: of Leases to renew, of the webhook's configuration and its certificate.
        assert {right.split()[1].partition(".")[0] for right in written} <= {
            "leases",
            "mutatingwebhookconfigurations",
            "secrets",
        }


def test_a_read_only_updater_still_reads_the_freeze_switch_and_the_lease_of_the_webhook() -> None:
    own = list(
        split(rule.build_policy_rule() for rule in rights_of("updater").list_rules(Scope.OWN_NAMESPACE, read_only=True))
    )
    assert "get leases.coordination.k8s.io vpa-admission-controller" in own
    assert "watch configmaps. trellis-freeze" in own
    assert not [right for right in own if right.endswith(" vpa-updater")]


def test_the_recommender_writes_statuses_checkpoints_events_and_its_lease_only() -> None:
    rights = rights_of("recommender")
    written = {
        right.split()[1]
        for scope in Scope
        for right in split(rule.build_policy_rule() for rule in rights.list_rules(scope))
        if right.partition(" ")[0] not in READ
    }
    assert written == {
        "verticalpodautoscalers/status.autoscaling.k8s.io",
        "hvpas/status.autoscaling.x-k8s.io",
        "verticalpodautoscalercheckpoints.autoscaling.k8s.io",
        "leases.coordination.k8s.io",
        "events.",
    }


def test_the_advisor_reads_only() -> None:
    switches = [switch.key for switch in ADVISOR.list_switches()]
    for scope in Scope:
        assert ADVISOR.list_rules(scope, switches) == ADVISOR.list_rules(scope, switches, read_only=True)
    assert not any("secrets" in rule.resources for rule in ADVISOR.rules)


def test_an_unknown_component_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="the components are recommender, admission, updater, hvpa, buffers, nodes"):
        rights_of("scheduler")


@pytest.mark.parametrize(
    ("component", "election"),
    [
        ("recommender", RecommenderSettings().leader.leader_elect_resource_name),
        ("updater", UpdaterSettings().leader.leader_elect_resource_name),
        ("hvpa", ""),
        ("buffers", ""),
        ("nodes", ""),
    ],
)
def test_member_leases_are_granted_by_name_with_the_switch(component: str, election: str) -> None:
    rules = rights_of(component).list_rules(Scope.OWN_NAMESPACE, [MEMBER_LEASES.key])
    [named] = [rule for rule in rules if rule.names[:1] == ("trellis-member-0",)]
    assert list(named.names) == [
        f"{group}-member-{number}" for group in ("trellis", election) if group for number in range(16)
    ]
    usual = rights_of(component).list_rules(Scope.OWN_NAMESPACE)
    assert not any(rule.resources == ("leases",) and "list" in rule.verbs for rule in usual)
