"""The text of every page as a script, from which the search shows where its words stand, also without a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FILE: Final = "_static/page_texts.js"
_NOT_SHOWN: Final = (nodes.raw, nodes.comment)


def _write_texts(app: Sphinx, exception: Exception | None) -> None:
    if exception is None:
        texts = {docname: _read_text(app.env.get_doctree(docname)) for docname in sorted(app.env.found_docs)}
        script = f"window.PAGE_TEXTS = {json.dumps(texts, ensure_ascii=False)};\n"
        Path(app.outdir, FILE).write_text(script, encoding="utf-8")


def _read_text(doctree: nodes.document) -> str:
    shown = (text for text in doctree.findall(nodes.Text) if not isinstance(text.parent, _NOT_SHOWN))
    blocks: list[str] = []
    last: nodes.Node | None = None
    for text in shown:
        block = _find_block(text)
        blocks.append(text.astext() if block is last else f" {text.astext()}")
        last = block
    return " ".join("".join(blocks).split())


def _find_block(text: nodes.Text) -> nodes.Node | None:
    """The paragraph or the like that a text stands in: words of different ones are apart."""
    parent = text.parent
    while isinstance(parent, nodes.Inline):
        parent = parent.parent
    return parent


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("build-finished", _write_texts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
