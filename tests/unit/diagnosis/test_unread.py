"""What could not be read, and which right lets it be read."""

from __future__ import annotations

from trellis.base.errors import Forbidden, NotFound, Unreachable
from trellis.diagnosis.text.missing_rights import merge_forbidden
from trellis.diagnosis.unread import build_unread


def test_a_missing_right_is_named_with_the_command_that_grants_it() -> None:
    error = Forbidden(403, "Forbidden", "no")
    unread = build_unread(error, "metrics", verb="get", resource="pods/proxy", namespace="kube-system")
    assert unread.is_forbidden
    assert unread.why == "may not be read (get pods/proxy)"
    assert unread.action.startswith(
        "kubectl create role trellis-pods-proxy -n kube-system --verb=get --resource=pods/proxy"
    )


def test_a_right_on_the_cluster_takes_a_cluster_role() -> None:
    unread = build_unread(Forbidden(403, "Forbidden", "no"), "CRDs", verb="list", resource="nodes.metrics.k8s.io")
    assert "kubectl create clusterrole trellis-nodes --verb=list --resource=nodes.metrics.k8s.io" in unread.action


def test_many_facts_that_may_not_be_read_are_one_entry_with_a_role_for_each_namespace() -> None:
    error = Forbidden(403, "Forbidden", "no")
    facts = [
        build_unread(error, what, verb=verb, resource=resource, namespace=namespace).to_unknown()
        for what, verb, resource, namespace in (
            ("CRDs", "get", "crds.example", ""),
            ("Leases in ops", "list", "leases.example", "ops"),
            ("nodes", "list", "nodes", ""),
        )
    ]
    down = build_unread(Unreachable("reset"), "metrics").to_unknown()
    assert merge_forbidden(facts[:2]) == facts[:2]
    merged, other = merge_forbidden([*facts[:2], down, facts[2]])
    assert (merged.subject, merged.why, other) == ("may not be read", "CRDs, Leases in ops, nodes", down)
    assert merged.action == (
        "kubectl create clusterrole trellis-diagnosis --verb=get,list --resource=crds.example --resource=nodes; "
        "kubectl create role trellis-diagnosis -n ops --verb=list --resource=leases.example; and bind them to you"
    )


def test_an_error_without_a_right_suggests_no_role() -> None:
    unread = build_unread(Unreachable("connection reset"), "metrics", verb="get", resource="pods/proxy")
    assert (unread.is_forbidden, unread.action, unread.why) == (False, "", "could not be read: connection reset")
    assert build_unread(NotFound(404, "NotFound", "no"), "CRDs").is_absent
