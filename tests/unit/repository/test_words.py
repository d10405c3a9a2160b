"""Texts of the package and pages: components and objects act, in the field's words, and rules say what must hold."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from trellis.api.registry import RULES

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "trellis"
OTHER_CODE = tuple(ROOT / name for name in ("bench", "testbed", "tools"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
# The name of uid 65534.
ACCOUNT = re.compile("nobody:x:65534:(65534:nobody)?")
INDEFINITE_PERSONS = re.compile(
    r"\b(nobody|somebody|anybody|everybody|someone|anyone|everyone|no one|no-one|whoever|whomever)\b", re.IGNORECASE
)

# Words that are no terms of the field.
PRIVATE_WORDS = re.compile(
    r"\b(played|roster|in vain|told|looked at|is another when|given back|means? something|rooms?|holes?|verdicts?|"
    r"(?:so|as) it was asked|goes with no|at most so many|within so long)\b",
    re.IGNORECASE,
)
PERCENT = re.compile(r"[0-9}]%(?![a-zA-Z0-9:.{])")
REQUIREMENT = re.compile(
    r"\b(must|may|should|shouldn't|requires?|required|needs|allowed|forbidden|effect|give one of them)\b"
)


def find_indefinite_persons(source: str) -> Iterator[tuple[int, str]]:
    """The line and the word of each indefinite person in string literals, docstrings and comments."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            for match in INDEFINITE_PERSONS.finditer(token.string):
                yield token.start[0], match[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for match in INDEFINITE_PERSONS.finditer(node.value):
                yield node.lineno + node.value.count("\n", 0, match.start()), match[0]


def test_no_indefinite_person_acts_in_texts_of_the_code() -> None:
    found = [
        f'{path.relative_to(ROOT)}:{line}: "{word}": name the component or the object instead'
        for folder in (PACKAGE, *OTHER_CODE)
        for path in sorted(folder.rglob("*.py"))
        for line, word in find_indefinite_persons(ACCOUNT.sub("", path.read_text()))
    ]
    assert found == []


def test_words_are_found_in_docstrings_literals_and_templates_with_their_line() -> None:
    source = '"""First.\n\nNobody waits."""\nx = f"{y} of somebody else"\n# nobody reads\nz = "bodyguard"\n'
    assert sorted(find_indefinite_persons(source)) == [(3, "Nobody"), (4, "somebody"), (5, "nobody")]


def iterate_texts(source: str) -> Iterator[tuple[int, str]]:
    """String literals with their lines, without docstrings; of f-strings the parts between braces are left out."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def iterate_docstrings(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            text := ast.get_docstring(node, clean=False)
        ):
            yield node.body[0].lineno, text


def find_in_texts(pattern: re.Pattern[str], *excluded: str) -> list[str]:
    return [
        f'{path.relative_to(ROOT)}:{line}: "{match[0]}"'
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.relative_to(PACKAGE).as_posix().startswith(excluded)
        for line, text in iterate_texts(path.read_text())
        # One word alone is a key of a document, which is an interface.
        if " " in text.strip()
        for match in pattern.finditer(text)
    ]


def test_messages_use_the_words_of_the_field() -> None:
    assert find_in_texts(PRIVATE_WORDS) == []


def test_docstrings_use_the_words_of_the_field() -> None:
    found = [
        f'{path.relative_to(ROOT)}:{line}: "{match[0]}"'
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in iterate_docstrings(path.read_text())
        for match in PRIVATE_WORDS.finditer(re.sub(r"`[^`]*`", "", text))
    ]
    assert found == []


def iterate_prose(page: str) -> Iterator[tuple[int, str]]:
    """The lines of a page that are wrapped: without code blocks, tables, headings and pictures."""
    is_code = False
    for number, line in enumerate(page.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith(("|", "#", "![", "<", "    ")):
            yield number, line


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_uses_the_words_of_the_field(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`|\"[^\"\n]*\"", "", page.read_text(), flags=re.DOTALL)
    found = [match[0] for pattern in (INDEFINITE_PERSONS, PRIVATE_WORDS) for match in pattern.finditer(text)]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_is_wrapped(page: Path) -> None:
    long = [number for number, line in iterate_prose(page.read_text()) if len(line) > 120]
    assert "reference" in page.parts or long == []


def test_percentages_have_a_space_before_the_sign() -> None:
    assert find_in_texts(PERCENT, "cli", "reports/html") == []


@pytest.mark.parametrize(
    "message", sorted({rule.message for rules in RULES.values() for rule in rules}), ids=lambda message: message
)
def test_a_rule_says_what_must_hold(message: str) -> None:
    assert REQUIREMENT.search(message)
    assert not message.endswith(".")


def test_texts_are_read_without_docstrings() -> None:
    assert list(iterate_texts('"""Played."""\nx = "told"\n')) == [(2, "told")]
