"""The frame and parts of an HTML page: header, sections, controls, cells; style, data and scripts in one file.

Figures get a real minus and dash, and a colour for better or worse; the sign says the same without colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from trellis.reports.text.numbers import NO_VALUE

_CLASSES = {1: "good", 0: "even", -1: "bad"}


def typeset(text: str) -> str:
    """A figure as `figures` writes it, with the signs that print has for it; safe to put into a page."""
    if text == NO_VALUE:
        return "\N{EN DASH}"
    signed = f"\N{MINUS SIGN}{text[1:]}" if text.startswith("-") else text
    held = signed.replace(" ", "\N{NO-BREAK SPACE}")
    return escape(f"{held[:-1]}\N{MULTIPLICATION SIGN}" if held.endswith("x") else held)


def render_difference(text: str, verdict: int) -> str:
    """A difference in the colour of its verdict. The sign tells the same to who sees no colours."""
    if not text:
        return ""
    shown = "same" if text == "=" else typeset(text)
    return f'<span class="diff {_CLASSES[verdict]}">{shown}</span>'


def render_number_cell(text: str, value: float, *, begins: bool = False) -> str:
    """A cell of a table that can be sorted by it; nought steps back. `begins` is for the first of some columns."""
    classes = " ".join(["none"] * (text in {"0", "0 %", NO_VALUE}) + ["part"] * begins)
    plain = f' class="{classes}"' if classes else ""
    ordered = f"{value:.6g}" if value == value else ""  # noqa: PLR0124 (NaN is not itself)
    return f'<td data-v="{ordered}"{plain}>{typeset(text)}</td>'


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'"
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M2 14V8h3v6zm4.5 0V2h3v12zM11 14V5h3v9z' fill='%232563eb'/%3E%3C/svg%3E"
)
_SCRIPTS = ("theme.js", "columns.js", "charts.js", "tables.js")


def render_page(title: str, body: str, data: Any, script: str) -> str:
    """The whole document. `data` is what the page's own script draws; `script` is the name of its file."""
    scripts = "\n".join(_packaged(name) for name in (*_SCRIPTS, script))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="{_ICON}">\n'
        f"<style>\n{_packaged('report.css')}</style>\n</head>\n<body>\n{body}\n"
        f'<script type="application/json" id="data">{embed_json(data)}</script>\n'
        f"<script>\n{scripts}</script>\n</body>\n</html>\n"
    )


def embed_json(data: Any) -> str:
    """JSON that cannot end the element it stands in, whatever names are in it."""
    return msgspec.json.encode(data).decode().replace("<", "\\u003c")


def render_header(kind: str, title: str, facts: Sequence[str]) -> str:
    """What it is, of what, and the button for the colours, which a script shows."""
    told = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    return (
        f'<header class="top"><div><p class="kind">{escape(kind)}</p><h1>{escape(title)}</h1>'
        f'<ul class="facts">{told}</ul></div>'
        '<button type="button" id="theme" class="quiet" hidden>Dark</button></header>'
    )


def render_banner(text: str) -> str:
    """Something that a reader must know first."""
    return f'<p class="banner" role="note">{escape(text)}</p>'


def render_section(name: str, title: str, content: str, lead: str = "") -> str:
    """A part of the page with its heading and a sentence below it."""
    below = f'<p class="note">{escape(lead)}</p>' if lead else ""
    heading = f'<h2 id="{name}-title">{escape(title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">{heading}{below}{content}</section>'


def render_script_notice(what: str) -> str:
    """A word in place of what a script would draw."""
    return f'<p class="note unscripted">{escape(what)} JavaScript is off; the tables hold all figures.</p>'


def render_field(name: str, label: str, control: str, *, hidden: bool = False) -> str:
    """A control with its label; `control` has the id `name`."""
    return (
        f'<span class="field"{" hidden" if hidden else ""}><label for="{name}">{escape(label)}</label>{control}</span>'
    )


def render_search(name: str, hint: str) -> str:
    """A field that narrows a table, and a word on how much of it is shown."""
    control = f'<input type="search" id="{name}-filter" placeholder="{escape(hint)}" autocomplete="off">'
    told = f'<span class="note" id="{name}-count" role="status"></span>'
    return f'<div class="controls scripted search">{render_field(f"{name}-filter", "Filter", control)}{told}</div>'


def render_switch(name: str, legend: str, options: Sequence[str], chosen: int) -> str:
    """One of several, as buttons side by side."""
    items = "".join(
        f'<label><input type="radio" name="{name}" value="{number}"{" checked" if number == chosen else ""}>'
        f'<span><i style="background:var(--v{number % 8})"></i>{escape(option)}</span></label>'
        for number, option in enumerate(options)
    )
    return f'<fieldset class="switch scripted"><legend>{escape(legend)}</legend>{items}</fieldset>'


def _packaged(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
