"""Checks that each component has one leader, and that no component of upstream's works beside one of Trellis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from trellis.base.reasons import Reason, Severity
from trellis.base.wording import choose_form
from trellis.diagnosis.findings import ClusterCheck, ClusterFinding
from trellis.diagnosis.installation import ComponentLease, ComponentState, ComponentWorkload
from trellis.runtime.manager.settings import ADMISSION

NO_LEADER = Reason("NoLeader", "No process holds the Lease of a component, so nothing is decided.", Severity.ERROR)
RIVAL_COMPONENTS = Reason(
    "RivalComponents", "Upstream's component and that of Trellis both work on the same objects.", Severity.ERROR
)
RIVAL_WAITS = Reason(
    "RivalWaits",
    "Upstream's component and that of Trellis compete for one Lease: one of them works, the other waits.",
    Severity.WARNING,
)
WEBHOOK_LEASE_EXPIRED = Reason(
    "WebhookLeaseExpired",
    "The admission controller does not renew the Lease by which updaters know that it runs, so no pod is evicted.",
    Severity.WARNING,
)
LEASE_HELD_ELSEWHERE = Reason(
    "LeaseHeldElsewhere",
    "A process that is no pod of the installation holds the Lease of a component, so its own replicas wait.",
    Severity.WARNING,
)
SEVERAL_WITHOUT_ELECTION = Reason(
    "SeveralWithoutElection",
    "Several replicas of a component work at the same time, because leader election is off.",
    Severity.ERROR,
)

_START_SECONDS: Final = 30.0
# A live holder renews every 2 s. The Lease of a pod that was deleted is held on paper for some seconds longer.
_RENEWAL_SECONDS: Final = 5.0


def check_leaders(states: Iterable[ComponentState], now: float, *, are_leases_known: bool = True) -> ClusterCheck:
    """Leases and rivals of all components."""
    findings: list[ClusterFinding] = []
    leaderless: dict[str, list[ComponentState]] = {}
    strangers: dict[tuple[str, str], list[ComponentLease]] = {}
    led = []
    for state in states:
        findings += _check_rivals(state)
        if not are_leases_known:
            continue
        findings += _check_election(state)
        for lease in _list_strange_leases(state, now):
            strangers.setdefault((state.workloads[0].label, _find_host(lease)), []).append(lease)
        findings += _check_webhook_lease(state) if state.component == ADMISSION else ()
        workload = _find_leaderless(state, now)
        if workload is not None:
            leaderless.setdefault(workload.label, []).append(state)
        led += [state.component] if state.holders and state.component != ADMISSION else []
    findings += [_describe_stranger(label, host, leases) for (label, host), leases in strangers.items()]
    findings += [_describe_leaderless(label, some, now) for label, some in leaderless.items()]
    summary = f"held: {', '.join(led)}" if led else "no Lease is held" if are_leases_known else "not known"
    return ClusterCheck("leaders", summary, tuple(findings))


def _check_rivals(state: ComponentState) -> Iterator[ClusterFinding]:
    active = [workload for workload in state.workloads if workload.wanted]
    ours = [workload for workload in active if workload.is_ours]
    foreign = [workload for workload in active if not workload.is_ours]
    if not ours or not foreign:
        return
    theirs = foreign[0]
    scale = f"kubectl scale -n {theirs.namespace} deployment/{theirs.name} --replicas=0"
    both = f"{theirs.label} of upstream's and {ours[0].label} of Trellis"
    elects = state.component != ADMISSION and all(workload.elects for workload in active)
    if elects and len({workload.namespace for workload in active}) == 1:
        yield ClusterFinding(RIVAL_WAITS, state.component, f"{both} take turns by one Lease", scale)
    else:
        yield ClusterFinding(RIVAL_COMPONENTS, state.component, f"{both} work at the same time", scale)


def _check_election(state: ComponentState) -> Iterator[ClusterFinding]:
    for workload in state.workloads:
        shares = workload.find_flag("shard-namespaces", state.component) == "true"
        conflicts = workload.wanted > 1 and not (workload.elects or shares or workload.is_idle(state.component))
        if state.component != ADMISSION and conflicts and not state.holders:
            yield ClusterFinding(
                SEVERAL_WITHOUT_ELECTION,
                state.component,
                f"{workload.label} has {workload.wanted} replicas and no leader election",
                "add the flag --leader-elect, or scale it to 1 replica",
            )


def _list_strange_leases(state: ComponentState, now: float) -> Iterator[ComponentLease]:
    """Leases whose holder is none of the pods: a process outside of the cluster, or another installation."""
    pods = [pod.name for workload in state.workloads for pod in workload.list_pods()]
    if state.component == ADMISSION or not pods or not state.is_ours:
        return
    for lease in state.leases:
        is_live = lease.is_held(now) and not lease.is_shared and now - lease.renewed < _RENEWAL_SECONDS
        if is_live and _find_host(lease) not in pods:
            yield lease


def _find_host(lease: ComponentLease) -> str:
    """The host of the holder, which is the name of its pod."""
    return lease.holder.partition("_")[0]


def _describe_stranger(label: str, host: str, leases: Sequence[ComponentLease]) -> ClusterFinding:
    """One finding for a process, however many Leases it holds."""
    names = ", ".join(lease.name for lease in leases)
    return ClusterFinding(
        LEASE_HELD_ELSEWHERE,
        label,
        f"{host}, which is no pod of it, holds {choose_form(len(leases), 'Lease', 'Leases')} {names}",
        "end that process if it should not work: the replicas then take over",
    )


def _find_leaderless(state: ComponentState, now: float) -> ComponentWorkload | None:
    """The workload whose replicas are ready, elect a leader, and have none."""
    if state.component == ADMISSION or state.holders:
        return None
    # A replica that has just started waits for the Lease of the one before it.
    electing = (
        workload
        for workload in state.workloads
        if workload.ready
        and workload.elects
        and not workload.is_idle(state.component)
        and workload.find_age(now) > _START_SECONDS
    )
    return next(electing, None)


def _describe_leaderless(label: str, states: Sequence[ComponentState], now: float) -> ClusterFinding:
    """One finding for a workload, however many components it runs."""
    namespace, _, name = label.partition("/")
    components = ", ".join(state.component for state in states)
    return ClusterFinding(
        NO_LEADER,
        label,
        f"no replica leads {components}: {_describe_lease(states[0].leases, now)}",
        f"kubectl logs -n {namespace} deployment/{name}; trellis doctor lists rights that are missing",
    )


def _check_webhook_lease(state: ComponentState) -> Iterator[ClusterFinding]:
    ready = [workload for workload in state.workloads if workload.ready and workload.is_ours]
    if ready and state.leases and not state.holders:
        lease = state.leases[0]
        yield ClusterFinding(
            WEBHOOK_LEASE_EXPIRED,
            state.component,
            f"Lease {lease.namespace}/{lease.name} is not renewed: updaters evict no pod",
            f"kubectl logs -n {ready[0].namespace} deployment/{ready[0].name}",
        )


def _describe_lease(leases: tuple[ComponentLease, ...], now: float) -> str:
    if not leases:
        return "there is no Lease yet"
    lease = leases[0]
    if not lease.holder:
        return f"Lease {lease.name} has no holder"
    return f"{lease.holder} has not renewed Lease {lease.name} for {max(0.0, now - lease.renewed):.0f} s"
