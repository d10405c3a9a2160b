"""How does a figure look on a page? With a real minus and dash, and a colour that says better or worse."""

from __future__ import annotations

from html import escape

from trellis.reports.figures import NOTHING

_CLASSES = {1: "good", 0: "even", -1: "bad"}


def typeset(text: str) -> str:
    """A figure as `figures` writes it, with the signs that print has for it; safe to put into a page."""
    if text == NOTHING:
        return "\N{EN DASH}"
    signed = f"\N{MINUS SIGN}{text[1:]}" if text.startswith("-") else text
    held = signed.replace(" ", "\N{NO-BREAK SPACE}")
    return escape(f"{held[:-1]}\N{MULTIPLICATION SIGN}" if held.endswith("x") else held)


def difference(text: str, verdict: int) -> str:
    """A difference in the colour of its verdict. The sign tells the same to who sees no colours."""
    if not text:
        return ""
    shown = "same" if text == "=" else typeset(text)
    return f'<span class="diff {_CLASSES[verdict]}">{shown}</span>'


def number_cell(text: str, value: float, *, begins: bool = False) -> str:
    """A cell of a table that can be sorted by it; nought steps back. `begins` is for the first of some columns."""
    classes = " ".join(["none"] * (text in {"0", "0 %", NOTHING}) + ["part"] * begins)
    plain = f' class="{classes}"' if classes else ""
    ordered = f"{value:.6g}" if value == value else ""  # noqa: PLR0124 (NaN is not itself)
    return f'<td data-v="{ordered}"{plain}>{typeset(text)}</td>'
