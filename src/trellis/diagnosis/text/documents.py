"""Status and diagnosis as documents for scripts. The keys are part of the interface."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from trellis.base.times import format_time
from trellis.core.resize.freeze import Freeze
from trellis.diagnosis.checks.freezes import FreezeFacts
from trellis.diagnosis.checks.webhook import find_certificate_end
from trellis.diagnosis.doctor import ClusterDiagnosis
from trellis.diagnosis.findings import ClusterFinding, ExitStatus, Level, UnknownFact
from trellis.diagnosis.status import ClusterStatus, ComponentRow
from trellis.diagnosis.unread import NoAnswer, Unread

STATUS: Final = "TrellisStatus"
DIAGNOSIS: Final = "TrellisDiagnosis"
_VERSION: Final = 1


def build_status_document(status: ClusterStatus) -> dict[str, Any]:
    """The status."""
    return {
        "kind": STATUS,
        "formatVersion": _VERSION,
        "time": _format_time(status.time),
        "exitStatus": status.exit_status,
        "installed": status.is_installed,
        "server": {"version": status.server.version},
        "components": [_build_component(row) for row in status.components],
        "objects": [
            {"kind": row.kind, "total": row.total, "states": dict(row.states), "problem": row.problem or None}
            for row in status.objects
        ],
        "frozen": isinstance(status.freezes.cluster, Freeze),
        "freeze": status.freeze,
        "freezes": _build_freezes(status.freezes),
        "webhook": _build_webhook(status),
        "metricsApi": status.metrics_api,
        "findings": list_findings(status.findings),
        "unknown": list_unknown_facts(status.unknown),
    }


def _build_component(row: ComponentRow) -> dict[str, Any]:
    return {
        "component": row.component,
        "running": row.is_running,
        "readOnly": row.is_idle,
        "provider": row.provider or None,
        "deployments": list(row.workloads),
        "ready": row.ready,
        "replicas": row.wanted,
        "leaders": list(row.leaders),
        "versions": list(row.versions),
        "lastPassAgeSeconds": _round(row.last_pass_age),
        "lastPassSeconds": _round(row.last_pass_duration),
        "lagSeconds": _round(row.lag),
    }


def _build_freezes(facts: FreezeFacts) -> dict[str, Any]:
    """Freezes by scope; what is unknown is in the list of unknown facts."""
    cluster = facts.cluster if isinstance(facts.cluster, Freeze) else None
    namespaces = () if isinstance(facts.namespaces, Unread) else facts.namespaces
    return {
        "cluster": None if cluster is None else {"by": cluster.author, "why": cluster.reason or None},
        "namespaces": [{"namespace": name, "by": freeze.author} for name, freeze in namespaces],
        "objects": facts.objects,
    }


def _build_webhook(status: ClusterStatus) -> dict[str, Any]:
    """The webhook; null is unknown or does not apply."""
    facts = status.webhook_facts
    if isinstance(facts, Unread):
        return {"summary": status.webhook, "registered": None}
    ready = facts.backend.ready if facts.backend is not None else None
    ends = find_certificate_end(facts)
    return {
        "summary": status.webhook,
        "registered": facts.is_registered,
        "failurePolicy": facts.failure_policy or None,
        "readyEndpoints": None if isinstance(ready, Unread) else ready,
        "dryRunPassed": None if facts.probe is None else not facts.probe,
        "certificateEnds": None if ends is None else _format_time(ends),
    }


def build_no_answer_document(kind: str, answer: NoAnswer, now: float) -> dict[str, Any]:
    """The document of a kind for a cluster that gives no answer."""
    return {
        "kind": kind,
        "formatVersion": _VERSION,
        "time": _format_time(now),
        "exitStatus": ExitStatus.CANNOT_TELL,
        "findings": [],
        "unknown": [{"subject": "API server", "why": f"{answer.what}: {answer.why}", "action": answer.action}],
    }


def build_diagnosis_document(diagnosis: ClusterDiagnosis, fail_on: Level) -> dict[str, Any]:
    """The diagnosis."""
    return {
        "kind": DIAGNOSIS,
        "formatVersion": _VERSION,
        "time": _format_time(diagnosis.time),
        "exitStatus": diagnosis.choose_exit_status(fail_on),
        "installed": diagnosis.is_installed,
        "server": {"version": diagnosis.server_version},
        "checks": [
            {
                "check": result.name,
                "level": str(result.level),
                "summary": result.summary or None,
                "findings": list_findings(result.findings),
                "unknown": list_unknown_facts(result.unknown),
            }
            for result in diagnosis.results
        ],
    }


def list_findings(findings: Iterable[ClusterFinding]) -> list[dict[str, Any]]:
    """Findings with their level and the code of their reason."""
    return [
        {
            "level": str(finding.level),
            "reason": finding.reason.code,
            "subject": finding.subject,
            "message": finding.message,
            "action": finding.action or None,
        }
        for finding in findings
    ]


def list_unknown_facts(unknown: Iterable[UnknownFact]) -> list[dict[str, Any]]:
    """Unknown facts."""
    return [{"subject": fact.subject, "why": fact.why, "action": fact.action or None} for fact in unknown]


def encode_document(document: dict[str, Any], *, indented: bool = True) -> bytes:
    """JSON: indented for a person, on one line in a sequence of documents."""
    encoded = msgspec.json.encode(document)
    return (msgspec.json.format(encoded, indent=2) if indented else encoded) + b"\n"


def _format_time(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
