"""Leaders and rivals."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.installations.facts import NOW, installation, lease, pod, state, upstream, workload
from trellis.diagnosis.checks import leaders
from trellis.diagnosis.checks.leaders import check_leaders
from trellis.diagnosis.findings import ClusterFinding
from trellis.diagnosis.installation import ComponentLease, ComponentWorkload, list_component_states


def check(
    component: str, *workloads: ComponentWorkload, leases: tuple[ComponentLease, ...] = ()
) -> tuple[ClusterFinding, ...]:
    return check_leaders([state(component, *workloads, leases=leases)], NOW).findings


def test_held_leases_give_no_finding() -> None:
    result = check_leaders(list_component_states(installation(), NOW), NOW)
    assert (result.findings, result.summary) == ((), "held: recommender, updater")


@pytest.mark.parametrize(
    ("leases", "words"),
    [
        ((), "there is no Lease yet"),
        ((lease("updater", holder=""),), "Lease vpa-updater has no holder"),
        ((lease("updater", renewed=NOW - 90.0),), "has not renewed Lease vpa-updater for 90 s"),
    ],
)
def test_a_component_without_a_leader_is_a_problem(leases: tuple[ComponentLease, ...], words: str) -> None:
    (finding,) = check("updater", workload("updater"), leases=leases)
    assert (finding.reason, words in finding.message) == (leaders.NO_LEADER, True)


def test_leases_that_may_not_be_read_are_not_taken_for_missing_ones() -> None:
    result = check_leaders([state("updater", workload("updater"))], NOW, are_leases_known=False)
    assert (result.findings, result.summary) == ((), "not known")


def test_a_lease_that_another_process_renews_is_found() -> None:
    elsewhere = lease("updater", holder="laptop_1")
    (finding,) = check("updater", workload("updater"), leases=(elsewhere,))
    assert finding.reason is leaders.LEASE_HELD_ELSEWHERE
    assert finding.message == "laptop, which is no pod of it, holds Lease vpa-updater"
    assert check("updater", leases=(elsewhere,)) == ()  # the whole component runs outside of the cluster


def test_replicas_that_share_namespaces_lead_together() -> None:
    first, second = pod("updater", "aaaaa"), pod("updater", "bbbbb")
    flags = {"shard-namespaces": "true"}
    sharing = workload("updater", wanted=2, ready=2, pods=(first, second), elects=False, flags=flags)
    shared = lease("updater", holder="vpa-updater-shards")
    members = tuple(
        lease("updater", name=f"vpa-updater-member-{number}", holder=f"{item.name}_6f1e")
        for number, item in enumerate((first, second))
    )
    found = state("updater", sharing, leases=(shared, *members))
    assert found.holders == (f"{first.name}_6f1e", f"{second.name}_6f1e")
    assert check_leaders([found], NOW).findings == ()
    assert check("updater", sharing) == ()  # before the first member Lease is held
    (finding,) = check("updater", sharing, leases=(shared, *members[:1], replace(members[1], holder="laptop_1")))
    assert finding.message == "laptop, which is no pod of it, holds Lease vpa-updater-member-1"


def test_a_process_that_holds_the_leases_of_several_components_is_one_finding() -> None:
    process = workload("controllers", components=("updater", "hvpa"))
    states = [
        state(component, process, leases=(lease(component, holder="laptop_1"),)) for component in ("updater", "hvpa")
    ]
    (finding,) = check_leaders(states, NOW).findings
    assert "holds Leases vpa-updater, trellis-hvpa" in finding.message


def test_the_lease_of_a_pod_that_is_gone_expires_first() -> None:
    gone = lease("updater", holder="vpa-updater-5d4f8b7c9-aaaaa_1", renewed=NOW - 8.0)
    assert check("updater", workload("updater"), leases=(gone,)) == ()


def test_components_of_one_process_without_leaders_are_one_finding() -> None:
    process = workload("controllers", components=("updater", "hvpa"))
    (finding,) = check_leaders([state("updater", process), state("hvpa", process)], NOW).findings
    assert finding.message == "no replica leads updater, hvpa: there is no Lease yet"


def test_a_component_that_has_just_started_may_wait_for_its_lease() -> None:
    assert check("updater", workload("updater", pods=(pod("updater", created=NOW - 5.0),))) == ()


def test_without_leader_election_one_replica_needs_no_lease_and_two_are_a_problem() -> None:
    assert check("updater", workload("updater", elects=False)) == ()
    (finding,) = check("updater", workload("updater", elects=False, wanted=2, ready=2))
    assert (finding.reason, "--leader-elect" in finding.action) == (leaders.SEVERAL_WITHOUT_ELECTION, True)


@pytest.mark.parametrize("flag", ["read-only", "dry-run", "updater.read-only"])
def test_a_component_that_changes_nothing_takes_no_lease(flag: str) -> None:
    assert check("updater", workload("updater", flags={flag: "true"})) == ()
    assert check("updater", workload("updater", wanted=2, ready=2, elects=False, flags={flag: "true"})) == ()


def test_upstream_beside_trellis_is_a_problem_with_the_command_that_ends_it() -> None:
    (finding,) = check("updater", workload("updater", name="trellis-updater", elects=False), upstream("updater"))
    assert finding.reason is leaders.RIVAL_COMPONENTS
    assert finding.action == "kubectl scale -n kube-system deployment/vpa-updater --replicas=0"


def test_rivals_that_share_a_lease_take_turns() -> None:
    ours, theirs = workload("updater", name="trellis-updater"), upstream("updater", elects=True)
    (finding,) = check("updater", ours, theirs, leases=(lease("updater"),))
    assert finding.reason is leaders.RIVAL_WAITS


def test_upstream_scaled_to_zero_is_no_rival() -> None:
    workloads = (workload("updater", name="trellis-updater"), upstream("updater", wanted=0, ready=0))
    assert check("updater", *workloads, leases=(lease("updater"),)) == ()


def test_two_webhooks_are_rivals_although_neither_has_a_leader() -> None:
    ours = workload("admission", name="trellis-admission")
    (finding,) = check("admission", ours, upstream("admission"), leases=(lease("admission"),))
    assert finding.reason is leaders.RIVAL_COMPONENTS


def test_an_expired_lease_of_the_webhook_keeps_updaters_from_evicting() -> None:
    (finding,) = check("admission", workload("admission"), leases=(lease("admission", renewed=NOW - 600.0),))
    assert finding.reason is leaders.WEBHOOK_LEASE_EXPIRED
