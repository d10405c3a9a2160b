"""Validates and defaults VerticalPodAutoscalers, Hvpas and Buffers before they are stored.

The validator is that of manifests, with two differences:

- What is stored already may stay. On an update only those errors count that the stored object does not have as well, so
  that an object which a newer rule would refuse can still be changed in its other fields. One that is being deleted is
  never refused.
- Names and labels, and fields that the kind does not have, are left to the API server: it validates after the webhook,
  in the way that the user asked for. Unknown fields only cause a warning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from trellis.api.feature_gates import FeatureGates
from trellis.api.problems import UNKNOWN_FIELD, ValidationProblem, format_path
from trellis.api.registry import VPA, Kind, find_kind
from trellis.api.validation import validate
from trellis.base.errors import Cause
from trellis.base.reasons import Reason, Severity
from trellis.core.admission.reviews import AdmissionRefusal, AdmissionReview, build_refusal, parse_object
from trellis.core.cluster.json_patches import PatchOp

OBJECT_ACCEPTED = Reason("ObjectAccepted", "The object is valid.")
OBJECT_DEFAULTED = Reason("ObjectDefaulted", "The object is valid, and defaults were filled in.")
OBJECT_REFUSED = Reason("ObjectRefused", "The object is invalid and was not stored.", Severity.WARNING)
OBJECT_NOT_CHECKED = Reason("ObjectNotChecked", "The webhook does not check objects of this kind, or this subresource.")

_DEFAULT_POLICY: Final = {"updateMode": "Recreate"}
_KEPT_WARNING: Final = "allowed only because the stored object has it too"

_Fault: TypeAlias = tuple[str, ...]


class ObjectAdmissionDecision(msgspec.Struct, frozen=True):
    """An object is refused, or stored with a patch. `warnings` go to the client that sent it."""

    reason: Reason
    patch: tuple[PatchOp, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: AdmissionRefusal | None = None


def review_object(review: AdmissionReview, gates: FeatureGates) -> ObjectAdmissionDecision:
    """Decide about an object that is created or updated. Raise `InvalidReview` if it is not JSON."""
    kind = find_kind(review.kind.api_version, review.kind.kind)
    if kind is None or review.sub_resource or not review.has_object:
        return ObjectAdmissionDecision(OBJECT_NOT_CHECKED)
    document = parse_object(review.object)
    if not isinstance(document, dict) or _is_being_deleted(document):
        return ObjectAdmissionDecision(OBJECT_NOT_CHECKED)
    old = parse_object(review.old_object) if review.has_old_object else None
    result = _validate_object(kind, document, old if isinstance(old, dict) else None, gates)
    if result.errors:
        causes = [Cause(problem.cause, problem.message, format_path(problem.path)) for problem in result.errors]
        refusal = build_refusal(kind.group, kind.name, _name(review, document), causes)
        return ObjectAdmissionDecision(OBJECT_REFUSED, warnings=result.warnings, refusal=refusal)
    patch = tuple(_defaults(kind, document))
    return ObjectAdmissionDecision(OBJECT_DEFAULTED if patch else OBJECT_ACCEPTED, patch, result.warnings)


class _ValidationResult(msgspec.Struct, frozen=True):
    errors: tuple[ValidationProblem, ...]
    warnings: tuple[str, ...]


def _validate_object(
    kind: Kind, document: dict[str, Any], old: dict[str, Any] | None, gates: FeatureGates
) -> _ValidationResult:
    problems = list(_outside_metadata(validate(kind, document, old, gates)))
    stored = Counter(map(_fault, _outside_metadata(validate(kind, old, old, gates)))) if old is not None else Counter()
    errors: list[ValidationProblem] = []
    warnings: list[str] = []
    for problem in problems:
        if not problem.is_error or problem.reason is UNKNOWN_FIELD:
            warnings.append(str(problem))
        elif stored[_fault(problem)] > 0:
            stored[_fault(problem)] -= 1
            warnings.append(f"{problem} ({_KEPT_WARNING})")
        else:
            errors.append(problem)
    return _ValidationResult(tuple(errors), tuple(warnings))


def _outside_metadata(problems: Iterable[ValidationProblem]) -> Iterator[ValidationProblem]:
    return (problem for problem in problems if problem.path[:1] != ("metadata",))


def _fault(problem: ValidationProblem) -> _Fault:
    """Identify a problem without list indices, so that it stays the same when its entry moves."""
    return (*("*" if isinstance(part, int) else part for part in problem.path), problem.message)


def _is_being_deleted(document: Mapping[str, Any]) -> bool:
    """Whether only finalizers keep the object; refusing it anything would keep it for ever."""
    metadata = document.get("metadata")
    return isinstance(metadata, dict) and metadata.get("deletionTimestamp") is not None


def _defaults(kind: Kind, document: Mapping[str, Any]) -> Iterator[PatchOp]:
    """Fill in what upstream does: the policy of an object without one. A schema default would show in every diff."""
    spec = document.get("spec")
    if kind is VPA and isinstance(spec, dict) and spec.get("updatePolicy") is None:
        yield PatchOp("add", "/spec/updatePolicy", _DEFAULT_POLICY)


def _name(review: AdmissionReview, document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    return review.name or str(fields.get("name") or fields.get("generateName") or "")
