"""Checks the API server: its version and what that lacks, feature gates as far as they are visible, and clocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.diagnosis.findings import ClusterCheck, ClusterFinding, UnknownFact
from trellis.diagnosis.unread import Unread

KUBERNETES_TOO_OLD = Reason(
    "KubernetesTooOld", "The CRDs need functions of CEL that Kubernetes has since 1.29.", Severity.ERROR
)
RESIZE_NOT_AVAILABLE = Reason(
    "ResizeNotAvailable",
    "The API server cannot resize pods in place: sizes are applied by eviction, and no start is boosted.",
    Severity.WARNING,
)
FEATURE_GATE_OFF = Reason("FeatureGateOff", "A feature of Kubernetes that Trellis uses is off.", Severity.WARNING)
CLOCKS_DIFFER = Reason(
    "ClocksDiffer", "Clocks differ, so that ages, Leases and certificates are judged by a wrong time.", Severity.WARNING
)

_OLDEST: Final = (1, 29)
_RESIZES: Final = (1, 33)
_LOWERS_MEMORY: Final = (1, 34)
# Gates by name, and what is missing without them.
_GATES: Final = {"InPlacePodVerticalScaling": "resizes in place and startup boosts"}
# A Date header has whole seconds, and the request takes time.
_SKEW_SECONDS: Final = 10.0


class ServerFacts(msgspec.Struct, frozen=True):
    """The API server. `resizes_pods` is whether it serves pods/resize; `skew` is its clock minus the local one.

    `lease_skews` are seconds by which renewals of Leases are in the future, by Lease: the clock of the holder is ahead.
    """

    version: str
    number: tuple[int, int]
    resizes_pods: bool | Unread = True
    gates: Mapping[str, bool] | Unread = {}
    skew: float | None = None
    lease_skews: Mapping[str, float] = {}


def check_server(facts: ServerFacts) -> ClusterCheck:
    """Version and what it lacks."""
    if facts.number == (0, 0):
        unknown = UnknownFact("Kubernetes version", f'"{facts.version}" names no version')
        return ClusterCheck("Kubernetes", facts.version, (), (unknown,))
    findings: list[ClusterFinding] = []
    lacks = []
    if facts.number < _OLDEST:
        findings.append(
            ClusterFinding(
                KUBERNETES_TOO_OLD,
                "API server",
                f"Kubernetes {facts.version} is older than 1.29",
                "upgrade the control plane: the CRDs are refused",
            )
        )
    if facts.resizes_pods is False:
        action = (
            "upgrade the control plane to 1.33 or newer"
            if facts.number < _RESIZES
            else "turn on the feature gate InPlacePodVerticalScaling"
        )
        findings.append(
            ClusterFinding(
                RESIZE_NOT_AVAILABLE, "API server", f"Kubernetes {facts.version} does not serve pods/resize", action
            )
        )
    elif facts.resizes_pods is True:
        lacks = ["resizes pods in place"]
        if facts.number < _LOWERS_MEMORY:
            lacks.append("memory limits are lowered by eviction (in place since 1.34)")
    unknown_facts = (facts.resizes_pods.to_unknown(),) if isinstance(facts.resizes_pods, Unread) else ()
    summary = f"{facts.version} {', '.join(lacks)}" if lacks else facts.version
    return ClusterCheck("Kubernetes", summary, tuple(findings), unknown_facts)


def check_gates(facts: ServerFacts) -> ClusterCheck:
    """Feature gates of the API server, which its metrics list."""
    name = "feature gates"
    if isinstance(facts.gates, Unread):
        return ClusterCheck(name, unknown=(facts.gates.to_unknown(),))
    gates = facts.gates
    findings = tuple(
        ClusterFinding(
            FEATURE_GATE_OFF,
            gate,
            f"is off at the API server: no {effect}",
            f"start the API server and kubelets with --feature-gates={gate}=true",
        )
        for gate, effect in _GATES.items()
        if gates.get(gate) is False
    )
    shown = [f"{gate} is on" for gate in _GATES if gates.get(gate)]
    return ClusterCheck(name, ", ".join(shown) or "not listed by the API server", findings)


def check_clocks(facts: ServerFacts) -> ClusterCheck:
    """The clocks of the API server, of this machine and of the components."""
    if facts.skew is None:
        return ClusterCheck("clocks", unknown=(UnknownFact("clocks", "the API server did not state its time"),))
    return ClusterCheck("clocks", "agree within 10 s", tuple(_compare_clocks(facts, facts.skew)))


def _compare_clocks(facts: ServerFacts, skew: float) -> Iterator[ClusterFinding]:
    if abs(skew) > _SKEW_SECONDS:
        side = "ahead of" if skew > 0 else "behind"
        yield ClusterFinding(
            CLOCKS_DIFFER,
            "API server",
            f"its clock is {abs(skew):.0f} s {side} the clock of this machine",
            "synchronize both clocks by NTP",
        )
    for lease, ahead in facts.lease_skews.items():
        if ahead > _SKEW_SECONDS:
            yield ClusterFinding(
                CLOCKS_DIFFER,
                f"Lease {lease}",
                f"was renewed {ahead:.0f} s in the future: the clock of its holder is ahead",
                "synchronize the clock of that node by NTP",
            )
