"""Is this object acceptable? The one validator: for the webhook, `trellis check` and the tests alike.

It takes the JSON as written, not a decoded object, so that unknown fields, wrong types and rules are all reported at
once, each with its field, its value and the rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trellis.api.conform import Conformance
from trellis.api.gates import Gates, gated
from trellis.api.kinds import CHECKPOINT, KWOK_NODE_GROUP, RULES, VPA, Kind
from trellis.api.kwok_group_rules import name_problems
from trellis.api.metadata import RULES as METADATA_RULES
from trellis.api.metadata import Metadata
from trellis.api.problems import INVALID, REQUIRED, UNKNOWN_FIELD, Problem
from trellis.api.scenario_scaling import HpaSpec
from trellis.api.schema import schema_of
from trellis.base.names import nearest

HPA_VERSION = "autoscaling/v2"
_TOP = ("apiVersion", "kind", "metadata", "spec", "status")


def validate(
    kind: Kind,
    document: Mapping[str, Any],
    old: Mapping[str, Any] | None = None,
    gates: Gates | None = None,
) -> list[Problem]:
    """Every problem of an object of one of our kinds, errors and warnings, in the order of its fields.

    `old` is the stored object on an update: what a switched-off feature gate forbids is tolerated where it was there
    before. `status` is looked at only where it is written together with the spec; elsewhere the server drops it.
    """
    top = _TOP if kind.status is not None else _TOP[:-1]
    problems = [_unknown(name, top) for name in document if name not in top]
    problems += metadata_problems(document.get("metadata"))
    if kind is KWOK_NODE_GROUP:
        problems += name_problems(document.get("metadata"))
    spec = document.get("spec")
    if spec is not None:
        problems += Conformance(RULES).check(schema_of(kind.spec), spec, ("spec",))
    elif kind.spec_required:
        problems.append(Problem(("spec",), REQUIRED, "spec must be given", in_crd=True))
    if kind is CHECKPOINT and kind.status is not None and document.get("status") is not None:
        problems += Conformance(RULES).check(schema_of(kind.status), document["status"], ("status",))
    if kind is VPA:
        problems += gated(spec, old.get("spec") if old else None, gates or Gates())
    return problems


def validate_simulated_hpa(document: Mapping[str, Any]) -> list[Problem]:
    """Every problem of a HorizontalPodAutoscaler, which is nobody's kind but Kubernetes', for a simulation."""
    problems = [_unknown(name, _TOP) for name in document if name not in _TOP]
    if document.get("apiVersion") != HPA_VERSION:
        problems.append(Problem(("apiVersion",), INVALID, f"must be {HPA_VERSION}", document.get("apiVersion")))
    problems += metadata_problems(document.get("metadata"))
    spec = document.get("spec")
    if spec is None:
        return [*problems, Problem(("spec",), REQUIRED, "spec must be given")]
    return problems + Conformance(RULES).check(schema_of(HpaSpec), spec, ("spec",))


def metadata_problems(metadata: object) -> list[Problem]:
    """What is wrong with an object's metadata; the same rules for every kind."""
    return Conformance({Metadata: METADATA_RULES}).check(
        schema_of(Metadata), {} if metadata is None else metadata, ("metadata",)
    )


def _unknown(name: str, top: tuple[str, ...]) -> Problem:
    return Problem((name,), UNKNOWN_FIELD, f'there is no field "{name}" here', suggestion=nearest(name, top))
