"""The comparison of the rights that components used with those that they are granted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from permissions import audit
from permissions.audit import Expectation, Request, find_unused_rights, find_wrong_requests, fold
from trellis.install.permissions import AccessRule, ComponentRights, Scope

ACCOUNT = "vpa-updater"


def rule(verbs: str, resources: str, *names: str, group: str = "", **more: Any) -> AccessRule:
    scope = more.pop("scope", Scope.WATCHED)
    return AccessRule(
        scope=scope,
        groups=(group,),
        resources=tuple(resources.split()),
        verbs=tuple(verbs.split()),
        names=names,
        why="Tests.",
        **more,
    )


def rights(*rules: AccessRule) -> list[ComponentRights]:
    return [ComponentRights(component="updater", account=ACCOUNT, role="trellis-updater", rules=rules)]


def request(verb: str, resource: str, *, role: str = "trellis-updater", **more: str) -> Request:
    usual = {"account": ACCOUNT, "group": "", "namespace": "shop", "name": ""}
    return Request(verb=verb, resource=resource, role=role, **(usual | more))


def event(verb: str, reference: dict[str, str] | None, *, user: str = ACCOUNT, allowed: bool = True) -> bytes:
    reason = 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "trellis-updater" to ServiceAccount "a/b"'
    annotations = {
        "authorization.k8s.io/decision": "allow" if allowed else "forbid",
        "authorization.k8s.io/reason": reason if allowed else "",
    }
    document: dict[str, Any] = {
        "kind": "Event",
        "stage": "ResponseComplete",
        "verb": verb,
        "user": {"username": f"system:serviceaccount:kube-system:{user}", "groups": ["x"]},
        "annotations": annotations,
    }
    return json.dumps(document | ({"objectRef": reference} if reference else {})).encode() + b"\n"


def test_a_log_is_folded_into_requests_with_the_role_that_allowed_them() -> None:
    pods = {"resource": "pods", "namespace": "shop", "name": "web", "apiVersion": "v1", "subresource": "resize"}
    hpas = {"resource": "horizontalpodautoscalers", "apiGroup": "autoscaling", "apiVersion": "v2"}
    log = [event("patch", pods), event("patch", pods), event("list", hpas, allowed=False)]
    assert fold(log) == {
        request("patch", "pods/resize", name="web"): 2,
        request("list", "horizontalpodautoscalers", group="autoscaling", namespace="", role=""): 1,
    }


def test_requests_without_a_resource_cut_lines_and_other_users_are_left_out() -> None:
    other = event("get", {"resource": "pods"}).replace(b"kube-system", b"default")
    assert not fold([event("get", None), other, event("get", {"resource": "pods"})[:40]])


def test_a_refused_request_is_a_problem_unless_it_is_expected() -> None:
    refused = request("list", "namespaces", namespace="", role="")
    table = rights(rule("list", "pods"))
    assert find_wrong_requests([refused], table, []) == ["updater: refused: list namespaces"]
    assert not find_wrong_requests([refused], table, [Expectation(ACCOUNT, "namespaces", "A test takes it away.")])


def test_a_request_that_only_a_role_of_a_test_allows_is_a_problem() -> None:
    extra = request("delete", "pods", role="of-a-test", name="web")
    [problem] = find_wrong_requests([extra], rights(rule("list", "pods")), [])
    assert problem == "updater: used and not in the table of rights: delete pods web in shop (of-a-test)"


def test_rights_that_every_account_has_need_no_rule() -> None:
    review = request("create", "selfsubjectaccessreviews", group="authorization.k8s.io", role="system:basic-user")
    assert not find_wrong_requests([review], rights(), [])


def test_each_verb_of_each_resource_must_be_used() -> None:
    table = rights(rule("list watch", "pods nodes"))
    requests = [request("list", "pods"), request("watch", "pods"), request("list", "nodes", namespace="")]
    assert find_unused_rights(requests, table) == ["updater: granted and not used: watch nodes"]


def test_a_refused_request_uses_no_right() -> None:
    assert find_unused_rights([request("list", "pods", role="")], rights(rule("list", "pods")))


@pytest.mark.parametrize(
    ("granted", "used"),
    [
        (rule("get", "*/scale", group="*"), request("get", "flowers/scale", group="example.com", name="rose")),
        (rule("list", "*", group="external.metrics.k8s.io"), request("list", "q", group="external.metrics.k8s.io")),
        (
            rule("get", "leases", "vpa-updater", group="coordination.k8s.io", scope=Scope.OWN_NAMESPACE),
            request("get", "leases", group="coordination.k8s.io", namespace="kube-system", name="vpa-updater"),
        ),
        # The test has its Lease in a namespace of its own.
        (
            rule("get", "leases", "vpa-updater", group="coordination.k8s.io", scope=Scope.OWN_NAMESPACE),
            request("get", "leases", group="coordination.k8s.io", name="lease-of-a-test", role="of-a-test"),
        ),
    ],
)
def test_a_rule_covers_the_requests_that_rbac_lets_it(granted: AccessRule, used: Request) -> None:
    assert not find_unused_rights([used], rights(granted))
    assert not find_wrong_requests([used], rights(granted), [])


def test_a_rule_with_a_name_does_not_cover_another_object() -> None:
    table = rights(rule("get", "leases", "vpa-updater", scope=Scope.OWN_NAMESPACE))
    other = request("get", "leases", namespace="kube-system", name="kube-scheduler")
    assert find_unused_rights([other], table)
    assert find_wrong_requests([other], table, [])


def test_a_reason_for_no_use_excuses_a_rule_until_it_is_used() -> None:
    table = rights(rule("list", "pods", untested="No test has pods."))
    assert not find_unused_rights([], table)
    assert find_unused_rights([request("list", "pods")], table) == ["updater: used, in spite of its reason: list pods"]


def test_a_right_of_shared_code_is_used_for_all_by_one_component() -> None:
    [updater] = rights(rule("create", "events", shared=True))
    hvpa = ComponentRights(component="hvpa", account="trellis-hvpa", role="r", rules=updater.rules)
    assert not find_unused_rights([request("create", "events")], [updater, hvpa])
    [unshared] = rights(rule("create", "events"))
    alone = ComponentRights(component="hvpa", account="trellis-hvpa", role="r", rules=unshared.rules)
    assert find_unused_rights([request("create", "events")], [unshared, alone]) == [
        "hvpa: granted and not used: create events"
    ]


def test_one_of_alternative_names_uses_the_right_to_all_of_them() -> None:
    names = ("trellis-member-0", "trellis-member-1")
    own = {"scope": Scope.OWN_NAMESPACE}
    used = [request("patch", "leases", namespace="kube-system", name="trellis-member-1")]
    assert not find_unused_rights(used, rights(rule("patch", "leases", *names, alternative_names=True, **own)))
    assert find_unused_rights([], rights(rule("patch", "leases", *names, alternative_names=True, **own)))
    assert find_unused_rights(used, rights(rule("patch", "leases", *names, **own))) == [
        "updater: granted and not used: patch leases trellis-member-0"
    ]


def test_a_process_of_several_components_uses_shared_rights_and_has_no_others_than_theirs(tmp_path: Path) -> None:
    lease = {"resource": "leases", "apiGroup": "coordination.k8s.io", "namespace": "kube-system"}
    member, foreign = lease | {"name": "trellis-member-3"}, lease | {"name": "kube-scheduler"}
    log = tmp_path / "kube-apiserver-1.log"
    log.write_bytes(b"".join(event(verb, member, user=audit.PROCESS.account) for verb in ("get", "patch")))
    problems = audit.find_problems(tmp_path, whole_suite=True)
    assert not [problem for problem in problems if "-member-" in problem or problem.startswith("run:")]
    log.write_bytes(event("patch", foreign, user=audit.PROCESS.account))
    [problem] = audit.find_problems(tmp_path, whole_suite=False)
    assert problem.startswith("run: used and not in the table of rights: patch leases")


def test_unused_rights_are_only_judged_by_the_whole_suite(tmp_path: Path) -> None:
    (tmp_path / "kube-apiserver-1.log").write_bytes(event("list", {"resource": "pods", "namespace": "shop"}))
    assert not audit.find_problems(tmp_path, whole_suite=False)
    assert "updater: granted and not used: create pods/eviction" in audit.find_problems(tmp_path, whole_suite=True)


def test_the_policy_logs_the_accounts_of_the_components_alone(tmp_path: Path) -> None:
    audit.prepare(tmp_path)
    [logged, rest] = audit.build_policy()["rules"]
    accounts = {user.rpartition(":")[2] for user in logged["users"]}
    assert {"vpa-recommender", "trellis-nodes", audit.PROCESS.account} <= accounts
    assert rest == {"level": "None"}
    assert "omitStages" in (tmp_path / audit.POLICY).read_text()
