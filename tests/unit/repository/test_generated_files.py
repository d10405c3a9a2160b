"""What is generated is up to date, and says what it should."""

from __future__ import annotations

from pathlib import Path

import pytest

import generate
import pages

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", generate.list_generated())
def test_a_generated_file_is_what_the_code_says(name: str) -> None:
    assert (ROOT / name).read_text() == generate.list_generated()[name](), "run `make docs`"


def test_the_page_of_requirements_links_a_requirement_to_its_tests() -> None:
    page = pages.build_requirements_page(ROOT)
    (row,) = [line for line in page.splitlines() if line.startswith("| CR-05 |")]
    assert "[more than one recommender is refused](../../tests/unit/api/rules/test_vpa.py)" in row


def test_a_test_that_cites_a_requirement_that_does_not_exist_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "requirements.toml").write_text(
        '[groups]\nCR = "X"\n[CR-01]\ntext = "A"\nshown-by = ["unit"]\n'
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text("import pytest\n\n@pytest.mark.req('CR-99')\ndef test_x(): ...\n")
    with pytest.raises(SystemExit, match="CR-99"):
        pages.build_requirements_page(tmp_path)


def test_lengths_of_the_items_of_a_list_are_not_mistaken_for_its_own() -> None:
    lines = (ROOT / "docs" / "reference" / "scenario.md").read_text().splitlines()
    (files,) = (line for line in lines if line.startswith("| `spec.policies[].files` |"))
    assert files.endswith("At most 1000 items. Each item: at most 1024 characters. |")
