"""Files of Trellis' formats inside ConfigMaps, as charts and kustomizations mount them.

A file that is written as a literal block (`config.yaml: |`) is checked at its own lines. In any other form, such as a
quoted text, what is found is reported at the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from trellis.api.problems import MapKey, Path
from trellis.base.yaml.documents import BrokenDocument, Document, read_documents
from trellis.core.lint.findings import UNREADABLE, Finding
from trellis.core.lint.formats import FileFormat
from trellis.core.lint.manifests import Manifest

_BLOCK = re.compile(r":[ \t]+\|[-+]?[ \t]*(#.*)?$")


class EmbeddedFile(msgspec.Struct, frozen=True):
    """A file inside a ConfigMap. Without `manifest` it is not YAML, which `findings` say."""

    manifest: Manifest | None
    findings: tuple[Finding, ...] = ()


def read_embedded(manifest: Manifest, formats: Sequence[FileFormat]) -> Iterator[EmbeddedFile]:
    """The files of these formats in the data of a ConfigMap; nothing for other kinds."""
    data = manifest.value.get("data")
    if manifest.kind != "ConfigMap" or manifest.api_version != "v1" or not isinstance(data, dict):
        return
    for key, text in data.items():
        if isinstance(text, str) and any(f"apiVersion: {known.group}/" in text for known in formats):
            yield from _read(manifest, key, text)


def _read(manifest: Manifest, key: str, text: str) -> Iterator[EmbeddedFile]:
    place: Path = ("data", key)
    block = _find_block(manifest, place, text)
    documents = read_documents(text if block is None else block[1])
    for document in documents:
        if isinstance(document, BrokenDocument):
            yield EmbeddedFile(None, tuple(_build_findings(manifest, key, document, block)))
        elif isinstance(document.value, dict):
            yield EmbeddedFile(Manifest(manifest.file, _move(manifest, place, document, block), document.value))


def _build_findings(
    manifest: Manifest, key: str, document: BrokenDocument, block: tuple[int, str] | None
) -> Iterator[Finding]:
    for error in document.errors:
        at_key = manifest.build_finding(UNREADABLE, f"line {error.line}: {error}", ("data", MapKey(key)))
        if block is None:
            yield at_key
        else:
            line = error.line + block[0] - 1
            text = manifest.document.read_line(line)
            yield msgspec.structs.replace(at_key, message=str(error), line=line, column=error.column, source_line=text)


def _move(manifest: Manifest, place: Path, document: Document, block: tuple[int, str] | None) -> Document:
    """The document at its lines in the file; if it has none of its own, at the line of its key."""
    outer = manifest.document
    if block is not None:
        return msgspec.structs.replace(document, number=outer.number, source_line=block[0] + document.source_line - 1)
    line, _ = outer.find_position(manifest.base_path + place)
    return Document(outer.number, line, document.value, outer.read_line(line), line)


def _find_block(manifest: Manifest, place: Path, text: str) -> tuple[int, str] | None:
    """The first line of a literal block and its text as it is indented; None if the value is written otherwise."""
    outer = manifest.document
    line, _ = outer.find_position(manifest.base_path + place)
    if not _BLOCK.search(outer.read_line(line)):
        return None
    lines = text.splitlines()
    first = next((number for number, content in enumerate(lines) if content.strip()), 0)
    written = outer.read_line(line + 1 + first)
    indentation = written[: len(written) - len(lines[first])] if lines else ""
    if indentation.strip() or written != indentation + lines[first]:
        return None
    return line + 1, "".join(f"{indentation}{content}\n" if content.strip() else "\n" for content in lines)
