"""Reads a configuration file: its text, every problem with its line, and its values as a layer of settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from trellis.api.problems import Path as FieldPath
from trellis.api.problems import format_path
from trellis.base.errors import InvalidConfiguration
from trellis.core.lint.findings import NOT_AN_OBJECT, Finding
from trellis.runtime.manager.configuration import API_VERSION, EFFECT, GROUP, KIND, VERSION
from trellis.runtime.manager.configuration.validation import build_layer, find_problems
from trellis.runtime.manager.layers import SettingsLayer, SettingTypes

if TYPE_CHECKING:
    from trellis.core.lint.manifests import Manifest

_HEAD: Final = f"begin it with `apiVersion: {API_VERSION}` and `kind: {KIND}`"


class ConfigurationFile(msgspec.Struct, frozen=True):
    """A valid file: its path and its values. `warnings` are what it says without effect."""

    path: Path
    layer: SettingsLayer
    warnings: tuple[str, ...] = ()


def read_text(path: Path) -> bytes:
    """The text of the file; raises `InvalidConfiguration` if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidConfiguration(path, [f"cannot be read: {error.strerror}"]) from error


def read_configuration(types: SettingTypes, path: Path, text: bytes | None = None) -> ConfigurationFile:
    """The file at a path, or a text that was read from it; raises `InvalidConfiguration` with all of its problems."""
    # Most processes read no YAML.
    from trellis.core.lint.formats import FileFormat  # noqa: PLC0415
    from trellis.core.lint.kinds import recognise_kind  # noqa: PLC0415
    from trellis.core.lint.manifests import ManifestSource, read_manifests  # noqa: PLC0415

    text = read_text(path) if text is None else text
    manifests, findings = read_manifests(ManifestSource(str(path), text))
    if findings and findings[0].reason is not NOT_AN_OBJECT:
        raise InvalidConfiguration(path, [_describe(finding) for finding in findings])
    if len(manifests) != 1:
        rule = "must be one document, and has several" if manifests else f"is not a {KIND}: {_HEAD}"
        raise InvalidConfiguration(path, [rule])
    configuration = FileFormat(GROUP, VERSION, KIND, EFFECT, lambda document: find_problems(types, document))
    manifest, kind, findings = recognise_kind(manifests[0], [configuration])
    if kind is not configuration:
        raise InvalidConfiguration(path, [*map(_describe, findings), f"is not a {KIND}: {_HEAD}"])
    found = [manifest.convert_problem(problem) for problem in configuration.find_problems(manifest.value)]
    findings += sorted(found, key=lambda finding: finding.line)
    errors = [_describe(finding) for finding in findings if finding.is_error]
    if errors:
        raise InvalidConfiguration(path, errors)

    def describe(field: FieldPath) -> str:
        return f"{format_path(field)} in {path}, line {_find_line(manifest, field)}"

    layer = build_layer(types, manifest.value, describe)
    return ConfigurationFile(path, layer, tuple(map(_describe, findings)))


def _describe(finding: Finding) -> str:
    field = f"{finding.path}: " if finding.path else ""
    return f"line {finding.line}: {field}{finding.message}"


def _find_line(manifest: Manifest, field: FieldPath) -> int:
    return manifest.document.find_position(manifest.base_path + field)[0]
