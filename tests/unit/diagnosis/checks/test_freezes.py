"""Freezes: for how long, by which author."""

from __future__ import annotations

from support.installations.facts import NOW
from trellis.core.resize.freeze import Freeze, FreezeScope
from trellis.diagnosis.checks import freezes
from trellis.diagnosis.checks.freezes import FreezeFacts, check_freezes
from trellis.diagnosis.findings import Level
from trellis.diagnosis.unread import Unread

BY_ALICE = Freeze("alice", FreezeScope.CLUSTER, "incident 17")


def test_a_cluster_without_a_freeze_gives_no_finding() -> None:
    result = check_freezes(FreezeFacts(), NOW)
    assert (result.findings, result.summary) == ((), "not frozen")


def test_a_frozen_cluster_names_author_reason_age_and_the_way_out() -> None:
    result = check_freezes(FreezeFacts("ops/switch", BY_ALICE, NOW - 7200.0), NOW)
    (finding,) = result.findings
    assert finding.reason is freezes.CLUSTER_FROZEN
    assert finding.message == "frozen by alice for 2 h (incident 17): no running pod changes"
    assert finding.action.endswith("kubectl delete configmap switch -n ops")
    assert result.summary == "cluster frozen by alice for 2 h (incident 17)"


def test_frozen_namespaces_are_shown_and_need_no_attention() -> None:
    some = tuple((name, Freeze("bob", FreezeScope.NAMESPACE)) for name in ("a", "b", "c", "d"))
    result = check_freezes(FreezeFacts(namespaces=some, objects=2), NOW)
    assert result.level is Level.OK
    assert result.summary == "frozen: a by bob, b by bob, c by bob and 1 more; 2 objects frozen"
    assert result.findings[0].reason is freezes.NAMESPACES_FROZEN


def test_a_switch_that_may_not_be_read_is_unknown() -> None:
    result = check_freezes(FreezeFacts(cluster=Unread("freeze switch", "may not be read")), NOW)
    assert (result.level, result.summary) == (Level.UNKNOWN, "the cluster's switch is unknown")
