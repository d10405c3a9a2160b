"""The picture in the README: a terminal with what `trellis check` prints, as SVG made from the real output."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from trellis.core.lint.check import CheckResult, check
from trellis.core.lint.manifests import ManifestSource
from trellis.reports.describe import describe_objects
from trellis.reports.findings import as_text

WIDTH = 108
LINE = 19
CHARACTER = 8.43
COLOURS = {"prompt": "#7ee787", "title": "#e6edf3", "error": "#ff7b72", "warning": "#e3b341", "text": "#b1bac4"}
Piece = tuple[str, str]


def draw_terminal(root: Path) -> str:
    """The SVG: the web example explained, and the mistakes found."""
    lines: list[list[Piece]] = [[("$ ", "prompt"), ("trellis check --explain examples/web", "title")]]
    for describe_object in describe_objects(
        _check(root, "examples/web/workload.yaml", "examples/web/autoscaling.yaml")
    ):
        lines += [[], [(f"{describe_object['object']} ({describe_object['file']})", "title")]]
        lines += [
            [(f"  {line}", "text")] for sentence in describe_object["sentences"] for line in _wrap(sentence, "  ")
        ]
    lines += [[], [("$ ", "prompt"), ("trellis check docs/guides/mistakes.yaml", "title")]]
    for line in as_text(_check(root, "docs/guides/mistakes.yaml")):
        lines += list(_colour_finding(line))
    return _draw_svg(lines)


def _check(root: Path, *names: str) -> CheckResult:
    return check([ManifestSource(name, (root / name).read_bytes()) for name in names])


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH - len(indent), subsequent_indent="  ", break_on_hyphens=False)


def _colour_finding(line: str) -> Iterator[list[Piece]]:
    """A finding with its severity in colour, wrapped."""
    for number, part in enumerate(_wrap(line, "")):
        place, mark, rest = part.partition(": error: ")
        if number == 0 and mark:
            yield [(f"{place}: ", "title"), ("error", "error"), (f": {rest}", "text")]
        else:
            yield [(part, "text")]


def _draw_svg(lines: list[list[Piece]]) -> str:
    width, height = round(WIDTH * CHARACTER) + 40, len(lines) * LINE + 62
    rows = [
        f'<text x="20" y="{54 + LINE * number}" xml:space="preserve">'
        + "".join(f'<tspan fill="{COLOURS[kind]}">{escape(text)}</tspan>' for text, kind in pieces)
        + "</text>"
        for number, pieces in enumerate(lines)
        if pieces
    ]
    dots = "".join(
        f'<circle cx="{22 + 20 * number}" cy="20" r="6" fill="{colour}"/>'
        for number, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    style = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:14px"
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"\n'
        f'     aria-label="trellis check explains manifests and finds mistakes in them" style="{style}">\n'
        f'<rect width="{width}" height="{height}" rx="10" fill="#0d1117"/>{dots}\n' + "\n".join(rows) + "\n</svg>\n"
    )
