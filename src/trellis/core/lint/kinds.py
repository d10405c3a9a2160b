"""Recognises objects of Trellis' kinds, misspelled kinds and versions included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from trellis.api.problems import REQUIRED, UNKNOWN_FIELD
from trellis.api.registry import ALL_KINDS, Kind, find_kind
from trellis.base.names import suggest_name
from trellis.core.lint.findings import UNKNOWN_KIND, Finding
from trellis.core.lint.manifests import Manifest

_NAMES = tuple(kind.name for kind in ALL_KINDS)
_GROUPS = tuple(sorted({kind.group for kind in ALL_KINDS}))
# Kinds of other projects in a shared group: never typos of ours.
_NEIGHBOURS = frozenset({"CapacityBuffer", "CapacityQuota", "ProvisioningRequest"})
_TYPE_FIELDS = ("apiVersion", "kind")


def recognise_kind(manifest: Manifest) -> tuple[Manifest, Kind | None, list[Finding]]:
    """The object with mistyped `apiVersion` and `kind` corrected, its kind if it is ours, and the findings."""
    findings: list[Finding] = []
    meant = dict(manifest.value)
    for name, field in _find_mistyped_fields(manifest):
        guess = f'there is no field "{name}" here (did you mean "{field}"?)'
        findings.append(manifest.build_finding(UNKNOWN_FIELD, f"Unknown field: {guess}", (name,)))
        meant[field] = meant.pop(name)
    manifest = msgspec.structs.replace(manifest, value=meant)
    kind = find_kind(manifest.api_version, manifest.kind)
    if kind is None:
        kind, other_findings = _recognise_near_miss(manifest)
        findings += other_findings
    return manifest, kind, findings


def _find_mistyped_fields(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Misspellings of `apiVersion` and `kind`."""
    for field in _TYPE_FIELDS:
        if field not in manifest.value:
            for name in manifest.value:
                if name not in _TYPE_FIELDS and name.lower() == field.lower():
                    yield name, field


def _recognise_near_miss(manifest: Manifest) -> tuple[Kind | None, list[Finding]]:
    """The kind that was probably misspelled, with findings; neither for objects of other projects."""
    by_name = next((kind for kind in ALL_KINDS if kind.name == manifest.kind), None)
    if by_name is not None:
        return _recognise_other_version(manifest, by_name)
    group = manifest.api_version.partition("/")[0]
    guess = suggest_name(manifest.kind, _NAMES) if group in _GROUPS and manifest.kind not in _NEIGHBOURS else None
    if guess is None:
        return None, []
    message = f'there is no kind "{manifest.kind}" in {group} (did you mean "{guess}"?)'
    return None, [manifest.build_finding(UNKNOWN_KIND, message, ("kind",))]


def _recognise_other_version(manifest: Manifest, kind: Kind) -> tuple[Kind | None, list[Finding]]:
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
    if kind.name == "VerticalPodAutoscaler" or group in _GROUPS or suggest_name(group, _GROUPS):
        message = f"there is no {kind.name} in {written}: write {kind.api_version}"
        return kind, [manifest.build_finding(UNKNOWN_KIND, message, ("apiVersion",))]
    return None, []


def decode_manifest(manifest: Manifest, kind: Kind) -> Any:
    """The object as its struct, or None if its types are wrong (the validator has said so)."""
    try:
        return msgspec.convert(manifest.value, kind.struct)
    except msgspec.ValidationError:
        return None
