"""A configuration file inside a ConfigMap is checked at the lines of the manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from trellis.api.problems import UNKNOWN_FIELD, ValidationProblem
from trellis.core.lint.check import CheckResult, check
from trellis.core.lint.formats import FileFormat
from trellis.core.lint.manifests import ManifestSource

HEAD = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: trellis}
data:
"""


def find_problems(document: Mapping[str, Any]) -> Iterable[ValidationProblem]:
    if isinstance(spec := document.get("spec"), dict) and "wrong" in spec:
        yield ValidationProblem(("spec", "wrong"), UNKNOWN_FIELD, "there is no such field")


FORMAT = FileFormat("files.example.com", "v1", "Garden", "Grows.", find_problems)


def run(data: str) -> CheckResult:
    return check([ManifestSource("a.yaml", (HEAD + data).encode())], [FORMAT])


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [
        ("  garden.yaml: |\n    apiVersion: files.example.com/v1\n    kind: Garden\n    spec:\n      wrong: 1\n", 9, 7),
        (
            "  a: |-  # why\n\n   # what\n   apiVersion: files.example.com/v1\n   kind: Garden\n   spec: {wrong: 1}\n",
            10,
            11,
        ),
        ('  a: "apiVersion: files.example.com/v1\\nkind: Garden\\nspec: {wrong: 1}\\n"\n', 5, 3),
        ("  a: >\n    {apiVersion: files.example.com/v1,\n    kind: Garden, spec: {wrong: 1}}\n", 5, 3),
    ],
)
def test_a_problem_has_its_line_in_the_manifest(data: str, line: int, column: int) -> None:
    [finding] = run(data).findings
    assert (finding.line, finding.column, finding.path) == (line, column, "spec.wrong")
    assert finding.source_line == (HEAD + data).splitlines()[line - 1]


def test_text_that_is_not_yaml_has_its_line_too() -> None:
    [finding] = run("  a: |\n    apiVersion: files.example.com/v1\n    kind: [\n").findings
    assert (finding.line, finding.reason.code, finding.source_line) == (7, "Unreadable", "    kind: [")


def test_other_data_and_other_objects_are_left_alone() -> None:
    assert run("  a: |\n    apiVersion: other.example.com/v1\n    kind: [\n").findings == ()
    secret = HEAD.replace("ConfigMap", "Secret") + "  a: |\n    apiVersion: files.example.com/v1\n    kind: [\n"
    assert check([ManifestSource("a.yaml", secret.encode())], [FORMAT]).findings == ()


def test_a_misspelled_kind_of_a_format_is_found() -> None:
    source = ManifestSource("a.yaml", b"apiVersion: files.example.com/v1\nkind: Gardn\n")
    [finding] = check([source], [FORMAT]).findings
    assert 'there is no kind "Gardn" in files.example.com (did you mean "Garden"?)' in finding.message
    [finding] = check(
        [ManifestSource("a.yaml", b"apiVersion: files.example.com/v2\nkind: Garden\n")], [FORMAT]
    ).findings
    assert finding.message.endswith("write files.example.com/v1")
