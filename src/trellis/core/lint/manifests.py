"""Reads the objects of a file, and the place of each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trellis.api.problems import HIDDEN, Path, ValidationProblem, format_path
from trellis.base.errors import InvalidDocument
from trellis.base.reasons import Reason
from trellis.base.yaml.documents import BrokenDocument, Document, read_documents
from trellis.core.lint.findings import NOT_AN_OBJECT, UNREADABLE, Finding


class ManifestSource(msgspec.Struct, frozen=True):
    """A file, or standard input. `named` distinguishes a named file from one found in a directory."""

    name: str
    data: bytes
    named: bool = True


class Manifest(msgspec.Struct, frozen=True):
    """One object: its JSON and its document. `base_path` is its path in the document, for items of a `kind: List`."""

    file: str
    document: Document
    value: Mapping[str, Any]
    base_path: Path = ()

    @property
    def api_version(self) -> str:
        """As written; empty if it is not text."""
        return _get_text(self.value.get("apiVersion"))

    @property
    def kind(self) -> str:
        """As written; empty if it is not text."""
        return _get_text(self.value.get("kind"))

    @property
    def name(self) -> str:
        """The object's name, empty if it has none."""
        return _get_text(_get_metadata(self.value).get("name"))

    @property
    def namespace(self) -> str:
        """The object's namespace, empty if it names none."""
        return _get_text(_get_metadata(self.value).get("namespace"))

    @property
    def title(self) -> str:
        """Kind and name of the object, for messages."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}".strip()

    def build_finding(self, reason: Reason, message: str, path: Path = ()) -> Finding:
        """A finding about a field of this object."""
        line, column = self.document.find_position(self.base_path + path)
        shown = format_path(path) if path else ""
        text = self.document.read_line(line)
        return Finding(self.file, self.document.number, line, column, reason, message, self.title, shown, text)

    def convert_problem(self, problem: ValidationProblem) -> Finding:
        """A finding from a problem of the validator."""
        finding = self.build_finding(problem.reason, self._unquoted(problem) or problem.message, problem.path)
        return msgspec.structs.replace(finding, source_line="") if problem.value == HIDDEN else finding

    def _unquoted(self, problem: ValidationProblem) -> str | None:
        """YAML's best-known trap: `updateMode: Off` is not text but the boolean false."""
        if not isinstance(problem.value, bool):
            return None
        written = self.document.read_source(self.base_path + problem.path)
        if written is None or written.lower() in {"true", "false"}:
            return None
        return f'{problem.message}; {written} without quotes is a boolean in YAML: write "{written}"'


def read_manifests(source: ManifestSource) -> tuple[list[Manifest], list[Finding]]:
    """The objects of a file, and findings about documents that are none."""
    manifests: list[Manifest] = []
    findings: list[Finding] = []
    for document in read_documents(source.data):
        if isinstance(document, BrokenDocument):
            findings += [_convert_error(source, document, error) for error in document.errors]
            continue
        for place, value in _iterate_objects(document.value, ()):
            if isinstance(value, dict) and (value.keys() & {"apiVersion", "kind"} or _resembles_object(value)):
                manifests.append(Manifest(source.name, document, value, place))
            elif source.named or place:
                line, column = document.find_position(place)
                message = "not a Kubernetes object: it has neither apiVersion nor kind"
                text = document.read_line(line)
                findings.append(
                    Finding(source.name, document.number, line, column, NOT_AN_OBJECT, message, source_line=text)
                )
    return manifests, findings


def _convert_error(source: ManifestSource, document: BrokenDocument, error: InvalidDocument) -> Finding:
    lines = source.data.decode("utf-8", "replace").split("\n")
    text = lines[error.line - 1] if error.line <= len(lines) else ""
    return Finding(source.name, document.number, error.line, error.column, UNREADABLE, str(error), source_line=text)


def _iterate_objects(value: object, place: Path) -> Iterator[tuple[Path, object]]:
    """The object itself, or the items of a list."""
    is_list = isinstance(value, dict) and _get_text(value.get("kind")) == "List"
    items = value.get("items") if is_list and isinstance(value, dict) else None
    if isinstance(items, list):
        for index, item in enumerate(items):
            yield (*place, "items", index), item
    else:
        yield place, value


def _resembles_object(value: Mapping[str, Any]) -> bool:
    """Whether a map is an object with misspelled `apiVersion` or `kind`."""
    return any(key.lower() in {"apiversion", "kind"} for key in value)


def _get_metadata(value: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = value.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _get_text(value: object) -> str:
    return value if isinstance(value, str) else ""
