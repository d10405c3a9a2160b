"""What the metrics of components say."""

from __future__ import annotations

import pytest

from support.installations.facts import NOW, installation, page, pod, state, workload
from trellis.base.reasons import Reason
from trellis.diagnosis.checks import passes
from trellis.diagnosis.checks.passes import check_passes
from trellis.diagnosis.installation import MetricsPage, PassMetrics, list_component_states
from trellis.diagnosis.unread import Unread


def test_passes_on_time_give_no_finding() -> None:
    result = check_passes(list_component_states(installation(), NOW), NOW)
    assert (result.findings, result.summary) == ((), "on time: recommender, updater")


@pytest.mark.parametrize(
    ("changed", "reason", "words"),
    [
        (page("updater", passes={"updater": PassMetrics(60.0, NOW - 400.0, 1.0, 1)}), passes.PASS_OVERDUE, "400 s ago"),
        (page("updater", passes={"updater": PassMetrics(60.0, NOW - 80.0, 1.0, 3)}), passes.PASSES_FAIL, "3 passes"),
        (page("updater", not_ready={"updater": "lease-lost"}), passes.COMPONENT_NOT_READY, "lease-lost"),
        (page("updater", forbidden_writes={"pods": 4.0}), passes.WRITES_FORBIDDEN, "4 writes refused"),
        (page("updater", unseen=("hvpas.autoscaling.x-k8s.io",)), passes.KINDS_UNREADABLE, "hvpas"),
        (page("updater", group_backoffs={"spot": 120.0}), passes.GROUP_BACKED_OFF, "120 s"),
    ],
)
def test_trouble_in_the_metrics_is_found(changed: MetricsPage, reason: Reason, words: str) -> None:
    result = check_passes([state("updater", workload("updater", pods=(pod("updater", page=changed),)))], NOW)
    (finding,) = result.findings
    assert (finding.reason, words in finding.message, bool(finding.action)) == (reason, True, True)


def test_a_pass_that_is_late_by_less_than_three_intervals_is_on_time() -> None:
    late = page("updater", passes={"updater": PassMetrics(60.0, NOW - 200.0, 1.0, 1)})
    assert check_passes([state("updater", workload("updater", pods=(pod("updater", page=late),)))], NOW).findings == ()


def test_metrics_that_may_not_be_read_are_unknown() -> None:
    unread = Unread("metrics of pods in kube-system", "may not be read", is_forbidden=True)
    result = check_passes([state("updater", workload("updater", pods=(pod("updater", page=unread),)))], NOW)
    assert (result.findings, [fact.subject for fact in result.unknown]) == ((), [unread.what])


def test_of_replicas_that_share_namespaces_the_latest_counts() -> None:
    stuck = page("updater", passes={"updater": PassMetrics(60.0, NOW - 400.0, 1.0, 0)})
    pods = (pod("updater", "aaaaa", page=stuck), pod("updater", "bbbbb"))
    found = state("updater", workload("updater", wanted=2, ready=2, pods=pods))
    assert [finding.reason for finding in check_passes([found], NOW).findings] == [passes.PASS_OVERDUE]


def test_a_replica_that_led_before_counts_until_the_new_leader_has_completed_a_pass() -> None:
    old = page("updater", leads={"updater": False}, passes={"updater": PassMetrics(60.0, NOW - 400.0, 1.0, 0)})
    new = page("updater", passes={"updater": PassMetrics(60.0)})
    pods = (pod("updater", "aaaaa", page=old), pod("updater", "bbbbb", page=new))
    found = state("updater", workload("updater", wanted=2, ready=2, pods=pods))
    assert [finding.reason for finding in check_passes([found], NOW).findings] == [passes.PASS_OVERDUE]


def test_a_replica_that_waits_hides_nothing_of_the_one_that_works() -> None:
    waiting = page("updater", passes={"updater": PassMetrics(60.0, 0.0, 0.0, 0)})
    pods = (pod("updater", "aaaaa", page=waiting), pod("updater", "bbbbb"))
    found = state("updater", workload("updater", wanted=2, ready=2, pods=pods)).find_passes()
    assert isinstance(found, PassMetrics)
    assert found.last == NOW - 20.0
