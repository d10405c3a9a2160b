"""The style of the pictures of the documentation, for light and dark pages.

There is no background. Greys and colours are such that both pages show them; where a reader's system says which it is,
they are a little lighter at night.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

# What a line stands for; the default comes first, and is the same everywhere.
COLOURS = ("#d9822b", "#1a9e77", "#8a63d2", "#2f81f7", "#d6409f", "#7a8b00")
NIGHT_COLOURS = ("#f0a04b", "#35c79a", "#a98ef0", "#58a6ff", "#f06bb8", "#a9bd1f")

_STYLE = """<style>
text{{font-family:system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;font-size:12px;fill:#6e7781}}
.title{{font-weight:600;font-size:13px}}.grid{{stroke:#8b949e;stroke-opacity:.25}}.axis{{stroke:#8b949e;stroke-opacity:.7}}
.usage{{fill:#8b949e;fill-opacity:.45}}.over{{fill:#e5484d}}.kill{{stroke:#e5484d;stroke-width:2.2}}
.line{{fill:none;stroke-width:2;stroke-linejoin:round}}.thin{{stroke-width:1;stroke-opacity:.5}}{day}
@media (prefers-color-scheme:dark){{text{{fill:#9aa4af}}.over{{fill:#ff6369}}.kill{{stroke:#ff6369}}{night}}}
</style>"""


def opened(width: int, height: int, label: str) -> str:
    """The beginning of a picture; `label` is what it shows, for who cannot see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escape(label)}">\n'
        + _STYLE.format(day=_classes(COLOURS), night=_classes(NIGHT_COLOURS))
    )


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    """Words; `kind` is how they look."""
    classes = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{classes}>{escape(words)}</text>'


def legend(x: float, y: float, number: int, words: str) -> str:
    """What the line of a number stands for."""
    return f'<path class="line l{number}" d="M{x:.1f} {y - 4:.1f}h20"/>' + text(x + 26, y, words)


def _classes(colours: tuple[str, ...]) -> str:
    return "".join(f".l{number}{{stroke:{colour}}}.d{number}{{fill:{colour}}}" for number, colour in enumerate(colours))
