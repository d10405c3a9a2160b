"""Checks CustomResourceDefinitions: present, established, with all fields of this version, stored versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from trellis.api.registry import KINDS, VPA, Kind
from trellis.api.schema.crds import build_crd
from trellis.base.reasons import Reason, Severity
from trellis.base.wording import pluralize
from trellis.diagnosis.findings import ClusterCheck, ClusterFinding
from trellis.diagnosis.unread import Unread

DEFINITION_MISSING = Reason(
    "DefinitionMissing", "The CRD of a kind is not installed, so its component has nothing to do.", Severity.ERROR
)
DEFINITION_OUTDATED = Reason(
    "DefinitionOutdated",
    "A CRD lacks fields that this version of Trellis has: the API server drops them.",
    Severity.WARNING,
)
DEFINITION_NOT_ESTABLISHED = Reason(
    "DefinitionNotEstablished", "The API server does not serve the kind of a CRD.", Severity.ERROR
)
OLD_VERSIONS_STORED = Reason(
    "OldVersionsStored", "Objects may still be stored in a version that the CRD no longer serves.", Severity.WARNING
)

APPLY: Final = "trellis crds | kubectl apply --server-side -f -"
_SHOWN_FIELDS: Final = 3


class DefinitionFacts(msgspec.Struct, frozen=True):
    """One CRD as it is stored. `schemas` are the schemas of served versions."""

    name: str
    is_established: bool = True
    stored_versions: tuple[str, ...] = ()
    schemas: Mapping[str, Mapping[str, Any]] = {}
    reason: str = ""


# CRDs by name; None for those that do not exist.
DefinitionsByName = Mapping[str, DefinitionFacts | None]


def check_definitions(definitions: DefinitionsByName | Unread, *, is_installed: bool) -> ClusterCheck:
    """The CRDs of all kinds. `is_installed` is whether components of Trellis run, which need them."""
    name = "CRDs"
    if isinstance(definitions, Unread):
        return ClusterCheck(name, unknown=(definitions.to_unknown(),))
    present = [kind for kind in KINDS if definitions.get(_name_of(kind)) is not None]
    if not present and not is_installed:
        return ClusterCheck(name, "none installed yet")
    findings = [finding for kind in KINDS for finding in _check_kind(kind, definitions, is_installed=is_installed)]
    return ClusterCheck(name, f"{len(present)} of {len(KINDS)} installed, as of this version", tuple(findings))


def _check_kind(kind: Kind, definitions: DefinitionsByName, *, is_installed: bool) -> Iterator[ClusterFinding]:
    name = _name_of(kind)
    stored = definitions.get(name)
    if stored is None:
        # Upstream's VPA alone has no need of the kinds that only Trellis has.
        if is_installed or kind is VPA:
            yield ClusterFinding(DEFINITION_MISSING, name, "is not installed", APPLY)
        return
    if not stored.is_established:
        yield ClusterFinding(
            DEFINITION_NOT_ESTABLISHED,
            name,
            f"is not established{f': {stored.reason}' if stored.reason else ''}",
            f"kubectl describe crd {name}",
        )
    missing = find_missing_fields(kind, stored)
    if missing:
        shown = ", ".join(missing[:_SHOWN_FIELDS])
        rest = len(missing) - _SHOWN_FIELDS
        more = f" and {rest} more" if rest > 0 else ""
        yield ClusterFinding(
            DEFINITION_OUTDATED, name, f"lacks {pluralize(len(missing), 'field')}: {shown}{more}", APPLY
        )
    old = [version for version in stored.stored_versions if version != kind.version]
    if old:
        yield ClusterFinding(
            OLD_VERSIONS_STORED,
            name,
            f"objects may be stored as {', '.join(old)}",
            f"write all of them once, then take {', '.join(old)} out of status.storedVersions of the CRD",
        )


def find_missing_fields(kind: Kind, stored: DefinitionFacts) -> tuple[str, ...]:
    """Paths of fields that this version has and the stored schema has not; of a missing field, not those below it."""
    ours = next(
        version["schema"]["openAPIV3Schema"]
        for version in build_crd(kind)["spec"]["versions"]
        if version["name"] == kind.version
    )
    theirs = stored.schemas.get(kind.version)
    return tuple(_compare_schemas(ours, theirs or {}, ""))


def _compare_schemas(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str) -> Iterator[str]:
    if theirs.get("x-kubernetes-preserve-unknown-fields"):
        return
    known = theirs.get("properties") or {}
    for name, schema in (ours.get("properties") or {}).items():
        field = f"{path}.{name}" if path else name
        # The API server adds these itself.
        if not path and name in ("apiVersion", "kind", "metadata"):
            continue
        if name not in known:
            yield field
        else:
            yield from _compare_schemas(schema, known[name], field)
    for container in ("items", "additionalProperties"):
        inner, stored = ours.get(container), theirs.get(container)
        if isinstance(inner, Mapping) and isinstance(stored, Mapping):
            yield from _compare_schemas(inner, stored, path)


def _name_of(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}"
