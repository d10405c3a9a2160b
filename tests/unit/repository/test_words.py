"""What the package says is about components and objects, not about indefinite persons."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "src" / "trellis"
INDEFINITE_PERSONS = re.compile(
    r"\b(nobody|somebody|anybody|everybody|someone|anyone|everyone|no one|no-one|whoever|whomever)\b", re.IGNORECASE
)


def find_indefinite_persons(source: str) -> Iterator[tuple[int, str]]:
    """The line and the word of each indefinite person in string literals and docstrings."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for match in INDEFINITE_PERSONS.finditer(node.value):
                yield node.lineno + node.value.count("\n", 0, match.start()), match[0]


def test_no_indefinite_person_acts_in_texts_of_the_package() -> None:
    found = [
        f'{path.relative_to(PACKAGE.parents[1])}:{line}: "{word}": name the component or the object instead'
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, word in find_indefinite_persons(path.read_text())
    ]
    assert found == []


def test_words_are_found_in_docstrings_literals_and_templates_with_their_line() -> None:
    source = '"""First.\n\nNobody waits."""\nx = f"{y} of somebody else"\n# nobody reads comments\nz = "bodyguard"\n'
    assert list(find_indefinite_persons(source)) == [(3, "Nobody"), (4, "somebody")]
