"""`make demo`: what Trellis says of the example manifests, and of a file with mistakes in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STEPS = (
    (
        "What will these objects do? The manifests of the five proposals, explained:",
        ["check", "--explain", "examples"],
        0,
    ),
    ("And what is wrong with these?", ["check", "docs/guides/mistakes.yaml"], 1),
)


def main() -> None:
    """Run each step as a user would, showing the command."""
    trellis = str(Path(sys.executable).with_name("trellis"))
    for title, arguments, expected in STEPS:
        print(f"\n{title}\n\n$ trellis {' '.join(arguments)}\n", flush=True)
        status = subprocess.run([trellis, *arguments], cwd=ROOT, check=False).returncode
        if status != expected:
            sys.exit(f"demo: exit status {status} instead of {expected}")
    print("\nNext: README.md, docs/getting-started.md, or `trellis check` on manifests of your own.")


if __name__ == "__main__":
    main()
