"""Rights of the user and of the accounts."""

from __future__ import annotations

from trellis.diagnosis.checks import access
from trellis.diagnosis.checks.access import (
    AccessFacts,
    AccountAccess,
    MissingRight,
    Right,
    check_account_access,
    check_user_access,
    drop_switched_off,
    list_account_rights,
)
from trellis.diagnosis.findings import Level
from trellis.diagnosis.unread import Unread
from trellis.install.permissions import COMPONENT_RIGHTS, rights_of

EVICT = Right("create", "pods/eviction")
NODES = MissingRight(Right("list", "nodes"), "Whether the new pod fits is not checked.")


def account(*missing: MissingRight) -> AccessFacts:
    return AccessFacts(accounts=(AccountAccess("updater", "kube-system/vpa-updater", missing),))


def test_a_right_is_written_as_kubectl_writes_it() -> None:
    assert str(Right("patch", "verticalpodautoscalers/status", "autoscaling.k8s.io")) == (
        "patch verticalpodautoscalers.autoscaling.k8s.io/status"
    )
    assert str(Right("get", "leases", "coordination.k8s.io", "kube-system", "vpa-updater")).endswith(" vpa-updater")


def test_a_missing_right_is_a_problem_and_an_optional_one_a_warning() -> None:
    required, optional = check_account_access(account(MissingRight(EVICT), NODES)).findings
    assert (required.reason, required.level) == (access.RIGHTS_MISSING, Level.PROBLEM)
    assert required.message == "may not create pods/eviction"
    assert (optional.reason, optional.level) == (access.RIGHTS_REDUCED, Level.WARNING)
    assert optional.message == "may not list nodes. Whether the new pod fits is not checked."


def test_verbs_of_one_resource_stand_together() -> None:
    missing = [MissingRight(Right(verb, "pods")) for verb in ("get", "list", "watch")]
    (finding,) = check_account_access(account(*missing)).findings
    assert finding.message == "may not get/list/watch pods"


def test_accounts_with_their_rights_are_well_and_unreviewed_ones_unknown() -> None:
    assert check_account_access(account()).summary == "1 account checked, no right is missing"
    unread = AccessFacts(accounts=(AccountAccess("updater", "a/b", Unread("rights of a/b", "may not be read")),))
    assert check_account_access(unread).level is Level.UNKNOWN


def test_a_user_who_may_not_install_is_warned() -> None:
    (finding,) = check_user_access(
        AccessFacts((Right("create", "clusterroles", "rbac.authorization.k8s.io"),))
    ).findings
    assert (finding.reason, "create clusterroles" in finding.message) == (access.MAY_NOT_INSTALL, True)
    assert check_user_access(AccessFacts()).level is Level.OK
    assert check_user_access(AccessFacts(Unread("your rights", "may not be read"))).level is Level.UNKNOWN


def test_every_rule_of_the_table_is_checked_where_it_applies() -> None:
    for rights in COMPONENT_RIGHTS:
        everywhere = {item.right for item in list_account_rights(rights, "home")}
        resources = {
            (group, name)
            for rule in rights.rules
            if rule.switch is None
            for group in rule.groups
            for name in rule.resources
        }
        assert resources <= {(right.group, right.resource) for right in everywhere}
    leases = [
        item.right for item in list_account_rights(rights_of("updater"), "home") if item.right.resource == "leases"
    ]
    assert {right.namespace for right in leases} == {"home"}


def test_rights_of_a_switch_that_is_off_are_not_missing() -> None:
    some = MissingRight(Right("create", "nodes"), switch="nodes.cloudProviders=kwok")
    other = MissingRight(Right("delete", "nodes"), switch="nodes.cloudProviders=kwok")
    always = MissingRight(EVICT)
    rights = (some, other, always)
    assert drop_switched_off(rights, (some, other, always)) == (always,)
    assert drop_switched_off(rights, (other,)) == (other,)
    # The installation creates the object itself.
    assert drop_switched_off(rights, (some,)) == ()


def test_an_installation_for_one_namespace_needs_no_right_on_the_cluster() -> None:
    namespaces = {item.right.namespace for item in list_account_rights(rights_of("updater"), "home", ("shop",))}
    assert namespaces == {"home", "shop"}
