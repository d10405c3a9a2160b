"""Checks what the metrics of the components say: passes, refused writes, kinds that may not be read, node groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from trellis.base.reasons import Reason, Severity
from trellis.base.wording import pluralize
from trellis.diagnosis.findings import ClusterCheck, ClusterFinding, UnknownFact
from trellis.diagnosis.installation import ComponentState, MetricsPage, PassMetrics
from trellis.diagnosis.unread import Unread

PASS_OVERDUE = Reason("PassOverdue", "A component has completed no pass for several intervals.", Severity.ERROR)
PASSES_FAIL = Reason("PassesFail", "The last passes of a component failed.", Severity.ERROR)
COMPONENT_NOT_READY = Reason("ComponentNotReady", "A component of a process is not ready.", Severity.WARNING)
WRITES_FORBIDDEN = Reason(
    "WritesForbidden", "The API server refuses writes of a component, because its account lacks rights.", Severity.ERROR
)
KINDS_UNREADABLE = Reason(
    "KindsUnreadable", "A component may not read a kind, and decides without its objects.", Severity.WARNING
)
GROUP_BACKED_OFF = Reason(
    "NodeGroupBackedOff", "No nodes are ordered from a node group for a while, because orders failed.", Severity.WARNING
)

# So many intervals may pass by: a pass may take as long as its interval, and one may fail.
_PATIENCE = 3.0
_RIGHTS = "trellis doctor lists the missing rights; apply the roles of the installation again"


def check_passes(states: Iterable[ComponentState], now: float) -> ClusterCheck:
    """Passes of all components, as far as their metrics can be read."""
    findings: list[ClusterFinding] = []
    unknown: dict[str, UnknownFact] = {}
    seen = []
    for state in states:
        passes = state.find_passes()
        if isinstance(passes, Unread):
            unknown[passes.what] = passes.to_unknown()
        elif passes is not None:
            seen.append(state.component)
            findings += _check_passes(state, passes, now)
        findings += _check_pages(state)
    summary = f"on time: {', '.join(seen)}" if seen else "no metrics of a component were read"
    return ClusterCheck("passes", summary, tuple(dict.fromkeys(findings)), tuple(unknown.values()))


def _check_passes(state: ComponentState, passes: PassMetrics, now: float) -> Iterator[ClusterFinding]:
    logs = state.log_command
    if passes.failed > 1:
        yield ClusterFinding(PASSES_FAIL, state.component, f"the last {passes.failed} passes failed", logs)
    overdue = passes.find_lag(now)
    if passes.last > 0 and not math.isnan(passes.interval) and overdue > _PATIENCE * passes.interval:
        age = now - passes.last
        yield ClusterFinding(
            PASS_OVERDUE, state.component, f"the last pass was {age:.0f} s ago, {passes.interval:.0f} s are usual", logs
        )


def _check_pages(state: ComponentState) -> Iterator[ClusterFinding]:
    for page in state.list_pages():
        reason = page.not_ready.get(state.component)
        if reason:
            yield ClusterFinding(COMPONENT_NOT_READY, state.component, f"is not ready: {reason}", state.log_command)
        yield from _check_rights(state, page)
        for group, seconds in page.group_backoffs.items():
            yield ClusterFinding(
                GROUP_BACKED_OFF,
                f"node group {group}",
                f"orders failed: none for {seconds:.0f} s",
                "look at its Events, and at the quota of the provider",
            )


def _check_rights(state: ComponentState, page: MetricsPage) -> Iterator[ClusterFinding]:
    place = state.workloads[0].label if state.workloads else state.component
    if page.forbidden_writes:
        count = round(sum(page.forbidden_writes.values()))
        kinds = ", ".join(sorted(page.forbidden_writes))
        yield ClusterFinding(
            WRITES_FORBIDDEN, place, f"{pluralize(count, 'write')} refused for lack of rights: {kinds}", _RIGHTS
        )
    if page.unseen:
        yield ClusterFinding(KINDS_UNREADABLE, place, f"may not read {', '.join(page.unseen)}", _RIGHTS)
