"""The navigation of the site: the tables of `docs/README.md`, in their order, one group for each heading.

The pages of a table in `docs/runbooks/README.md` are below that page. A page that no table lists fails the build. Code
hosts show the same tables, so there is no second list to keep.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HOME: Final = "README"
OVERVIEW: Final = "docs/README"
# Pages with tables of their own, whose pages are below them.
INDEXES: Final = ("docs/runbooks/README",)
_HEADING = re.compile(r"^## (.+)$")
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)#\s]+)\.md\) \|")


class Group(NamedTuple):
    """Pages under one heading, each with its label."""

    heading: str
    pages: list[tuple[str, str]]


def read_groups(text: str, index: str = OVERVIEW) -> list[Group]:
    """The headings of the overview, or of another index, that have a table of pages."""
    result: list[Group] = []
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            result.append(Group(heading[1], []))
        elif (row := _ROW.match(line)) and result:
            page = posixpath.normpath(posixpath.join(posixpath.dirname(index), row[2]))
            result[-1].pages.append((row[1], page))
    return [group for group in result if group.pages]


def render_toctrees(groups: list[Group]) -> str:
    """Hidden directives, which put the pages into the side bar and nothing into the page."""
    blocks = [_render_toctree("", [("Overview", OVERVIEW)])]
    blocks += [_render_toctree(f":caption: {group.heading}\n", group.pages) for group in groups]
    return "\n\n" + "\n".join(blocks)


def _render_toctree(option: str, pages: list[tuple[str, str]]) -> str:
    lines = "".join(f"{label} </{page}>\n" for label, page in pages)
    return f"```{{toctree}}\n:hidden:\n{option}\n{lines}```\n"


def _add_navigation(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == HOME:
        overview = Path(app.srcdir, f"{OVERVIEW}.md")
        app.env.note_dependency(str(overview))
        source[0] += render_toctrees(read_groups(overview.read_text(encoding="utf-8")))
    elif docname in INDEXES:
        groups = read_groups(source[0], docname)
        source[0] += "\n\n" + "\n".join(_render_toctree(f":caption: {name}\n", pages) for name, pages in groups)


def _write_index(app: Sphinx, exception: Exception | None) -> None:
    """Servers and readers look for `index.html`; links between pages say `README.html`, as the repository does."""
    if exception is None:
        shutil.copyfile(Path(app.outdir, f"{HOME}.html"), Path(app.outdir, "index.html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("source-read", _add_navigation)
    app.connect("build-finished", _write_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
