"""The dump that the guide "why did it do that" reads is the one that the tests of explanations are about."""

from __future__ import annotations

import os
from pathlib import Path

from explained_world import shop

DUMP = Path(__file__).resolve().parents[2] / "examples" / "explain" / "shop.jsonl"


def test_the_dump_of_the_guide_is_the_shop_of_the_tests() -> None:
    lines = b"".join(shop().lines())
    if os.environ.get("REWRITE_GOLDEN"):
        DUMP.write_bytes(lines)
    assert DUMP.read_bytes() == lines, "run with REWRITE_GOLDEN=1 and look at the guide"
