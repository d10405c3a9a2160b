"""`make demo` shows what it promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_demo_explains_the_examples_and_finds_the_mistakes() -> None:
    done = subprocess.run(
        [sys.executable, "tools/demo.py"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "start with three times their recommended CPU until 10 s after Ready" in done.stdout
    assert "docs/guides/mistakes.yaml:2:1: error: apiversion: Unknown field" in done.stdout
    assert "Traceback" not in done.stderr
