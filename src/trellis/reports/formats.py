"""Encodes results as JSON, CSV and YAML, and names the output formats of a command.

JSON keys are part of the interface; what is not known is null in JSON and empty in CSV. YAML is written the way
people write manifests: block style, no anchors.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec
import yaml

from trellis.reports.html.documentation import Documentation

CsvCell = str | float | int | None
_LARGE = 1e6  # from here on fractions are of no use


def encode_json(kind: str, result: msgspec.Struct) -> bytes:
    """A result as JSON with camel-case keys; unknown values are null. The keys are part of the interface."""
    return msgspec.json.encode({"kind": kind, "formatVersion": 1, **_to_document(result)}) + b"\n"


def encode_indented(document: Any) -> bytes:
    """Indented JSON, because people read it too."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _to_document(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return {
            _to_camel_case(name): _to_document(field) for name, field in fields.items() if field is not msgspec.UNSET
        }
    if isinstance(value, list) and value and not isinstance(value[0], (int, float, str)):
        return [_to_document(item) for item in value]
    return value


def _to_camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def encode_csv(columns: Sequence[str], rows: Iterable[Sequence[CsvCell]]) -> str:
    """A heading and rows; unknown values are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_format_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _format_cell(value: CsvCell) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= _LARGE else f"{value:.10g}"
    return str(value)


class _ManifestDumper(yaml.SafeDumper):
    """Block style, no anchors, list items indented like their key's siblings."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Never write aliases such as `*id001`."""
        return True


def encode_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """One document per object, keys in the order they have."""
    documents = (
        yaml.dump(dict(item), Dumper=_ManifestDumper, sort_keys=False, width=110, allow_unicode=True)
        for item in objects
    )
    return "---\n" + "---\n".join(documents)


T = TypeVar("T")

# What is reported, the width of a line, how many rows in, and the documentation that a page links to.
OutputFormat: TypeAlias = Callable[[T, int, int, Documentation], str]


def output_formats(
    *,
    text: Callable[[T, int, int], Sequence[str]],
    json: Callable[[T], bytes],
    yaml: Callable[[T], str],
    csv: Callable[[T], str],
    html: Callable[[T, Documentation], str],
    markdown: Callable[[T, int], str],
) -> Mapping[str, OutputFormat[T]]:
    """The formats of a report by the name that `--output` takes."""
    return {
        "table": lambda result, width, top, _: "\n".join(text(result, width, top)) + "\n",
        "json": lambda result, _width, _top, _: json(result).decode(),
        "yaml": lambda result, _width, _top, _: yaml(result),
        "csv": lambda result, _width, _top, _: csv(result),
        "html": lambda result, _width, _top, documentation: html(result, documentation),
        "markdown": lambda result, _width, top, _: markdown(result, top),
    }
