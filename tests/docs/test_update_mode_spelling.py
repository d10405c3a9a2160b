"""What a reader copies from the documentation has the update mode `"Off"` in quotes: without them it is a boolean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# They show the mistake and what is said about it.
ABOUT_THE_MISTAKE = {"docs/guides/mistakes.yaml", "docs/guides/check.md", "docs/images/check.svg"}
FILES = sorted(
    path
    for folder in (ROOT / "docs", ROOT / "examples", ROOT / "deploy")
    for path in folder.rglob("*")
    if path.suffix in (".md", ".yaml", ".yml", ".toml", ".svg") and str(path.relative_to(ROOT)) not in ABOUT_THE_MISTAKE
)
UNQUOTED = re.compile(r"""\b\w*[mM]ode["']?: *(?:Off|off|OFF)\b""")


def find_unquoted(text: str) -> list[str]:
    return [match[0] for match in UNQUOTED.finditer(text)]


def test_update_mode_off_is_quoted_everywhere() -> None:
    assert len(FILES) > 80
    found = {
        str(path.relative_to(ROOT)): values
        for path in [ROOT / "README.md", *FILES]
        if (values := find_unquoted(path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("text", "unquoted"),
    [
        ("`updateMode: Off`", True),
        ("{mode: Off}", True),
        ('updateMode: "Off"', False),
        ("updateMode: Offline", False),
    ],
)
def test_an_unquoted_value_is_found(text: str, unquoted: bool) -> None:
    assert bool(find_unquoted(text)) is unquoted
