"""Reports as they were last approved. `REWRITE_GOLDEN=1` writes them anew; the diff then shows what changed."""

from __future__ import annotations

import os
import re
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"


def assert_golden(name: str, text: str) -> None:
    file = GOLDEN / name
    if os.environ.get("REWRITE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert file.is_file(), f"{file.name} is missing: run with REWRITE_GOLDEN=1"
    assert text == file.read_text(encoding="utf-8"), f"not as in {file.name}; run with REWRITE_GOLDEN=1 and look at it"


def page_body(page: str) -> str:
    """A page without its style sheet and scripts, which are the same on every page."""
    return re.sub(r"<(style|script)>\n.*?</\1>", r"<\1/>", page, flags=re.DOTALL)
