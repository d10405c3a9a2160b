"""The status of an installation: a row for each component, counts of objects, and what needs attention."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from trellis.diagnosis.checks.deployments import check_deployments
from trellis.diagnosis.checks.freezes import FreezeFacts, check_freezes, describe_freezes
from trellis.diagnosis.checks.leaders import check_leaders
from trellis.diagnosis.checks.objects import KINDS, ObjectsByKind, check_objects, count_conditions
from trellis.diagnosis.checks.passes import check_passes
from trellis.diagnosis.checks.server import ServerFacts
from trellis.diagnosis.checks.usage_sources import MetricsApiFacts, check_metrics_api
from trellis.diagnosis.checks.webhook import (
    WebhookFacts,
    check_webhook,
    describe_webhook,
)
from trellis.diagnosis.findings import (
    ClusterCheck,
    ClusterFinding,
    Level,
    UnknownFact,
    choose_exit_status,
    list_unknown,
    sort_findings,
)
from trellis.diagnosis.installation import (
    ComponentState,
    Installation,
    PassMetrics,
    find_state,
    list_component_states,
)
from trellis.diagnosis.unread import Unread
from trellis.runtime.manager.settings import ADMISSION

TRELLIS = "Trellis"
UPSTREAM = "upstream's"
BOTH = "both"


class ClusterFacts(msgspec.Struct, frozen=True):
    """What a status is made from. `now` is the time of the API server, if it states that.

    `unlisted` are kinds of which only the objects of the user's own namespace could be listed.
    """

    now: float
    server: ServerFacts
    installation: Installation = Installation()
    webhook: WebhookFacts | Unread = WebhookFacts()
    freezes: FreezeFacts = FreezeFacts()
    objects: ObjectsByKind = {}
    unlisted: tuple[Unread, ...] = ()
    metrics_api: MetricsApiFacts = MetricsApiFacts()


class ComponentRow(msgspec.Struct, frozen=True, kw_only=True):
    """A component as the status shows it. Times are seconds; None is unknown or does not apply."""

    component: str
    provider: str = ""
    workloads: tuple[str, ...] = ()
    ready: int = 0
    wanted: int = 0
    leaders: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    last_pass_age: float | None = None
    last_pass_duration: float | None = None
    lag: float | None = None
    is_running: bool = False
    is_idle: bool = False
    has_unknown_passes: bool = False


class ObjectRow(msgspec.Struct, frozen=True):
    """How many objects of a kind are in which state; `total` is None if they could not be read or are not served."""

    kind: str
    total: int | None
    states: Mapping[str, int] = {}
    problem: str = ""


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of an installation. `results` are those of the checks behind it."""

    time: float
    server: ServerFacts
    is_installed: bool
    components: tuple[ComponentRow, ...]
    objects: tuple[ObjectRow, ...]
    freezes: FreezeFacts
    freeze: str
    webhook_facts: WebhookFacts | Unread
    webhook: str
    metrics_api: str
    results: tuple[ClusterCheck, ...]

    @property
    def findings(self) -> tuple[ClusterFinding, ...]:
        """What needs attention, the worst first."""
        return sort_findings(self.results)

    @property
    def unknown(self) -> tuple[UnknownFact, ...]:
        """What could not be determined."""
        return list_unknown(self.results)

    @property
    def exit_status(self) -> int:
        """The exit status of the command."""
        return choose_exit_status(self.results, Level.WARNING)


def judge_cluster(facts: ClusterFacts, *, is_required: bool = True) -> tuple[ClusterCheck, ...]:
    """The checks of an installation, in the order in which they matter."""
    states = list_component_states(facts.installation, facts.now)
    is_installed = any(state.is_running for state in states)
    results = (
        check_deployments(facts.installation, is_required=is_required),
        check_leaders(states, facts.now, are_leases_known=facts.installation.has_known_leases),
        check_passes(states, facts.now),
        check_webhook(facts.webhook, find_state(states, ADMISSION), facts.now),
        check_metrics_api(facts.metrics_api),
        check_freezes(facts.freezes, facts.now),
        check_objects(facts.objects, states, is_known=facts.installation.is_known, unlisted=facts.unlisted),
    )
    return results if is_installed or is_required else _soften_before_install(results)


def _soften_before_install(results: tuple[ClusterCheck, ...]) -> tuple[ClusterCheck, ...]:
    """Before an installation, the state of objects and freezes needs no attention: nothing serves them yet."""
    kept = {"components", "webhook", "metrics API"}
    return tuple(result for result in results if result.name in kept)


def build_status(facts: ClusterFacts) -> ClusterStatus:
    """The status from the facts."""
    states = list_component_states(facts.installation, facts.now)
    results = judge_cluster(facts)
    by_name = {result.name: result for result in results}
    return ClusterStatus(
        time=facts.now,
        server=facts.server,
        is_installed=any(state.is_running for state in states),
        components=tuple(_build_row(state, facts.now) for state in states),
        objects=tuple(_build_object_row(kind, facts.objects) for kind in KINDS if kind in facts.objects),
        freezes=facts.freezes,
        freeze=describe_freezes(facts.freezes, facts.now),
        webhook_facts=facts.webhook,
        webhook=_describe_webhook(facts.webhook, facts.now),
        metrics_api=_describe_metrics_api(facts.metrics_api, by_name["metrics API"]),
        results=results,
    )


def _build_row(state: ComponentState, now: float) -> ComponentRow:
    passes = state.find_passes()
    known = passes if isinstance(passes, PassMetrics) and passes.last > 0 else None
    return ComponentRow(
        component=state.component,
        provider=_name_provider(state),
        workloads=tuple(workload.label for workload in state.workloads),
        ready=state.ready,
        wanted=state.wanted,
        # The webhook's Lease says that one runs: no replica of it leads.
        leaders=() if state.component == ADMISSION and state.workloads else state.holders,
        versions=state.versions,
        last_pass_age=None if known is None else max(0.0, now - known.last),
        last_pass_duration=None if known is None else _to_optional(known.duration),
        lag=None if known is None else _to_optional(known.find_lag(now)),
        is_running=state.is_running,
        is_idle=state.is_idle,
        # The admission controller has none.
        has_unknown_passes=isinstance(passes, Unread) and state.component != ADMISSION,
    )


def _name_provider(state: ComponentState) -> str:
    if not state.workloads:
        return ""
    kinds = {workload.is_ours for workload in state.workloads}
    return BOTH if len(kinds) > 1 else TRELLIS if kinds == {True} else UPSTREAM


def _to_optional(value: float) -> float | None:
    return None if math.isnan(value) else value


def _build_object_row(kind: str, objects: ObjectsByKind) -> ObjectRow:
    listed = objects.get(kind)
    if listed is None:
        return ObjectRow(kind, None, problem="the CRD is not installed")
    if isinstance(listed, Unread):
        return ObjectRow(kind, None, problem=listed.summary)
    return ObjectRow(kind, len(listed), count_conditions(kind, listed))


def _describe_webhook(webhook: WebhookFacts | Unread, now: float) -> str:
    if isinstance(webhook, Unread):
        return webhook.summary
    return describe_webhook(webhook, now) if webhook.is_registered else "not registered"


def _describe_metrics_api(facts: MetricsApiFacts, result: ClusterCheck) -> str:
    if result.findings:
        return result.findings[0].message
    if result.unknown:
        return facts.nodes.summary if isinstance(facts.nodes, Unread) else result.unknown[0].why
    return result.summary
