"""Pages for the files and folders of the repository that the documentation links to.

A code host shows such a file, so the site does too: as a page with its path and its highlighted text. A folder becomes
a list of the files in it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from docutils import nodes
from pygments.lexers import get_lexer_for_filename
from pygments.token import Error
from pygments.util import ClassNotFound
from sphinx import addnodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

Page = tuple[str, dict[str, Any], str]

# The key under which the environment keeps, for each page, which paths it links to.
_LINKED: Final = "repository-files"
_TEMPLATE: Final = "repository_file.html"


def _link_to_pages(app: Sphinx, doctree: nodes.document) -> None:
    """Replaces what would be a download by a link to the file's page, and what would be a broken link to a folder."""
    docname = app.env.docname
    root = Path(app.srcdir)
    linked = set()
    for node in [*doctree.findall(addnodes.download_reference), *doctree.findall(addnodes.pending_xref)]:
        if node.get("reftype") != "myst" or node.get("refdomain") is not None:
            continue
        path = posixpath.normpath(posixpath.join(posixpath.dirname(docname), node["reftarget"]))
        if path.startswith("..") or not _can_be_shown(root / path):
            continue
        linked.add(path)
        target = posixpath.relpath(f"{path}.html", posixpath.dirname(docname) or ".")
        node.replace_self(nodes.reference("", "", *node.children, refuri=target, internal=True))
    app.env.metadata[docname][_LINKED] = sorted(linked)
    if docname.startswith("examples/"):
        # Examples are found from the pages that link to them, not from the navigation.
        app.env.metadata[docname]["orphan"] = True


def _can_be_shown(path: Path) -> bool:
    return path.is_dir() or (path.is_file() and _read(path) is not None)


def _read(path: Path) -> str | None:
    """The text of a file, if it is text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def _build_pages(app: Sphinx) -> Iterator[Page]:
    """A page for each path that is linked to, and for each file of a folder that is."""
    root = Path(app.srcdir)
    linked = {path for metadata in app.env.metadata.values() for path in metadata.get(_LINKED, ())}
    folders = {path: _list_files(root, path) for path in linked if (root / path).is_dir()}
    yield from (_build_folder(path, files, app.env.found_docs) for path, files in sorted(folders.items()))
    files = {path for path in linked if path not in folders}.union(*folders.values())
    for path in sorted(files):
        if app.env.path2doc(str(root / path)) not in app.env.found_docs:
            yield _build_file(app, path, _read(root / path) or "")


def _list_files(root: Path, folder: str) -> list[str]:
    paths = (path.relative_to(root) for path in sorted((root / folder).rglob("*")) if path.is_file() and _read(path))
    return [str(path) for path in paths if not any(part.startswith((".", "__pycache__")) for part in path.parts)]


def _build_folder(folder: str, files: Iterable[str], pages: set[str]) -> Page:
    items = []
    for path in files:
        target = path.removesuffix(".md") if path.removesuffix(".md") in pages else path
        href = posixpath.relpath(f"{target}.html", posixpath.dirname(folder) or ".")
        items.append(f'<li><a href="{escape(href)}">{escape(posixpath.relpath(path, folder))}</a></li>')
    return folder, {"title": folder, "body": f"<ul>{''.join(items)}</ul>"}, _TEMPLATE


def _build_file(app: Sphinx, path: str, text: str) -> Page:
    body = app.builder.highlighter.highlight_block(text, _find_language(path, text))
    return path, {"title": path, "body": body}, _TEMPLATE


def _find_language(path: str, text: str) -> str:
    """The language of the file's name, or plain text where the content has another, as a template of a chart has."""
    try:
        lexer = get_lexer_for_filename(path)
    except ClassNotFound:
        return "text"
    if any(token in Error for token, _ in lexer.get_tokens(text)):
        return "text"
    return str(lexer.aliases[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls. Downloads are collected at priority 500, so links are replaced before that."""
    app.connect("doctree-read", _link_to_pages, priority=400)
    app.connect("html-collect-pages", _build_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
