"""An anchor for each reason on its reference page, as in `reasons.html#NoProbe`: reports link to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PAGE: Final = "docs/reference/reasons"


def _add_anchors(app: Sphinx, doctree: nodes.document) -> None:
    if app.env.docname != PAGE:
        return
    for row in doctree.findall(nodes.row):
        code = next(iter(row[0].findall(nodes.literal)), None)
        if code is not None:
            row["ids"].append(code.astext())


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("doctree-read", _add_anchors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
