"""Checks freezes: whether changes are stopped, for the cluster or for namespaces, by which author and why."""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.base.wording import format_age, pluralize
from trellis.core.resize.freeze import FREEZE_ANNOTATION, Freeze
from trellis.diagnosis.findings import ClusterCheck, ClusterFinding
from trellis.diagnosis.unread import Unread

CLUSTER_FROZEN = Reason("ClusterFrozen", "No running pod of the cluster is changed.", Severity.WARNING)
NAMESPACES_FROZEN = Reason("NamespacesFrozen", "No running pod of some namespaces is changed.")


_SHOWN: Final = 3


class FreezeFacts(msgspec.Struct, frozen=True):
    """The freezes in force. `config_map` is the place of the switch, `since` when it was made; 0 is unknown.

    `namespaces` are frozen ones by name, `objects` how many VPAs and Hvpas are frozen.
    """

    config_map: str = "kube-system/trellis-freeze"
    cluster: Freeze | Unread | None = None
    since: float = 0.0
    namespaces: tuple[tuple[str, Freeze], ...] | Unread = ()
    objects: int = 0


def check_freezes(facts: FreezeFacts, now: float) -> ClusterCheck:
    """Freezes of the cluster and of namespaces."""
    unknown = tuple(item.to_unknown() for item in (facts.cluster, facts.namespaces) if isinstance(item, Unread))
    findings: list[ClusterFinding] = []
    if isinstance(facts.cluster, Freeze):
        namespace, _, name = facts.config_map.partition("/")
        findings.append(
            ClusterFinding(
                CLUSTER_FROZEN,
                "cluster",
                f"{_describe_cluster(facts, facts.cluster, now)}: no running pod changes",
                f"when it is over: kubectl delete configmap {name} -n {namespace}",
            )
        )
    if not isinstance(facts.namespaces, Unread) and facts.namespaces:
        name, freeze = facts.namespaces[0]
        findings.append(
            ClusterFinding(
                NAMESPACES_FROZEN,
                f"namespace {name}",
                f"{pluralize(len(facts.namespaces), 'namespace')} frozen, {name} by {freeze.author}",
                f"when it is over: kubectl annotate namespace {name} {FREEZE_ANNOTATION}-",
            )
        )
    return ClusterCheck("freeze", describe_freezes(facts, now), tuple(findings), unknown)


def describe_freezes(facts: FreezeFacts, now: float) -> str:
    """The freezes in a line."""
    parts = []
    if isinstance(facts.cluster, Freeze):
        parts.append(f"cluster {_describe_cluster(facts, facts.cluster, now)}")
    elif isinstance(facts.cluster, Unread):
        parts.append("the cluster's switch is unknown")
    if not isinstance(facts.namespaces, Unread):
        shown = [f"{name} by {freeze.author}" for name, freeze in facts.namespaces[:_SHOWN]]
        rest = len(facts.namespaces) - len(shown)
        parts += [f"frozen: {', '.join(shown)}{f' and {rest} more' if rest else ''}"] if shown else []
    if facts.objects:
        parts.append(f"{pluralize(facts.objects, 'object')} frozen")
    return "; ".join(parts) or "not frozen"


def _describe_cluster(facts: FreezeFacts, freeze: Freeze, now: float) -> str:
    reason = f" ({freeze.reason})" if freeze.reason else ""
    since = f" for {format_age(max(0.0, now - facts.since))}" if facts.since else ""
    return f"frozen by {freeze.author}{since}{reason}"
