"""The page about the image quotes what was measured last."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_the_recorded_figures() -> None:
    measured = json.loads((ROOT / "docs" / "images" / "image.json").read_text())
    row = (
        f"| {measured['date']}, {measured['architecture']}, Python {measured['python']} "
        f"| {measured['archiveBytes'] / 1e6:.0f} MB | {measured['unpackedBytes'] / 1e6:.0f} MB "
        f"| {measured['secondsToReady']:.1f} s |"
    )
    assert row in (ROOT / "docs" / "guides" / "image.md").read_text().splitlines(), row
