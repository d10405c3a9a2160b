"""Recognises objects of Trellis' kinds, misspelled kinds and versions included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from trellis.api.problems import REQUIRED, UNKNOWN_FIELD
from trellis.api.registry import ALL_KINDS, Kind
from trellis.base.names import suggest_name
from trellis.core.lint.findings import UNKNOWN_KIND, Finding
from trellis.core.lint.formats import FileFormat, KnownKind
from trellis.core.lint.manifests import Manifest

# Kinds of other projects in a shared group: never typos of ours.
_NEIGHBOURS = frozenset({"CapacityBuffer", "CapacityQuota", "ProvisioningRequest"})
_TYPE_FIELDS = ("apiVersion", "kind")


def recognise_kind(
    manifest: Manifest, formats: Sequence[FileFormat] = ()
) -> tuple[Manifest, KnownKind | None, list[Finding]]:
    """The object with mistyped `apiVersion` and `kind` corrected, its kind if it is ours, and the findings."""
    findings: list[Finding] = []
    meant = dict(manifest.value)
    for name, field in _find_mistyped_fields(manifest):
        guess = f'there is no field "{name}" here (did you mean "{field}"?)'
        findings.append(manifest.build_finding(UNKNOWN_FIELD, f"Unknown field: {guess}", (name,)))
        meant[field] = meant.pop(name)
    manifest = msgspec.structs.replace(manifest, value=meant)
    known: tuple[KnownKind, ...] = (*ALL_KINDS, *formats)
    same = (kind for kind in known if kind.api_version == manifest.api_version and kind.name == manifest.kind)
    kind = next(same, None)
    if kind is None:
        kind, other_findings = _recognise_near_miss(manifest, known)
        findings += other_findings
    return manifest, kind, findings


def _find_mistyped_fields(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Misspellings of `apiVersion` and `kind`."""
    for field in _TYPE_FIELDS:
        if field not in manifest.value:
            for name in manifest.value:
                if name not in _TYPE_FIELDS and name.lower() == field.lower():
                    yield name, field


def _recognise_near_miss(manifest: Manifest, known: Sequence[KnownKind]) -> tuple[KnownKind | None, list[Finding]]:
    """The kind that was probably misspelled, with findings; neither for objects of other projects."""
    groups = tuple(sorted({kind.group for kind in known}))
    by_name = next((kind for kind in known if kind.name == manifest.kind), None)
    if by_name is not None:
        return _recognise_other_version(manifest, by_name, groups)
    group = manifest.api_version.partition("/")[0]
    is_ours = group in groups and manifest.kind not in _NEIGHBOURS
    guess = suggest_name(manifest.kind, [kind.name for kind in known]) if is_ours else None
    if guess is None:
        return None, []
    message = f'there is no kind "{manifest.kind}" in {group} (did you mean "{guess}"?)'
    return None, [manifest.build_finding(UNKNOWN_KIND, message, ("kind",))]


def _recognise_other_version(
    manifest: Manifest, kind: KnownKind, groups: Sequence[str]
) -> tuple[KnownKind | None, list[Finding]]:
    """A kind of ours under another apiVersion."""
    written = manifest.api_version
    if not written:
        message = f"Required value: {kind.name} needs apiVersion: {kind.api_version}"
        return kind, [manifest.build_finding(REQUIRED, message, ("apiVersion",))]
    group, _, version = written.partition("/")
    if group == kind.group:
        retired = f"{kind.group}/{version} is no longer served"
        unknown = f"there is no version {version} of {kind.name}"
        reason_text = retired if version in (*kind.retired_versions, "v1beta1") else unknown
        return kind, [manifest.build_finding(UNKNOWN_KIND, f"{reason_text}: write {kind.api_version}", ("apiVersion",))]
    # Other projects use the names `Buffer` and `Hvpa` too; only a similar group is a typo.
    if kind.name == "VerticalPodAutoscaler" or group in groups or suggest_name(group, groups):
        message = f"there is no {kind.name} in {written}: write {kind.api_version}"
        return kind, [manifest.build_finding(UNKNOWN_KIND, message, ("apiVersion",))]
    return None, []


def decode_manifest(manifest: Manifest, kind: KnownKind) -> Any:
    """The object as its struct, or None if its types are wrong (the validator has said so) or it has no struct."""
    if not isinstance(kind, Kind):
        return None
    try:
        return msgspec.convert(manifest.value, kind.struct)
    except msgspec.ValidationError:
        return None
