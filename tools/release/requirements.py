"""Requirements with versions and hashes, exported from `uv.lock`, which pip installs into the image."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bootstrap import find_uv
from release.lock import IMAGE_EXTRAS

_HEADER = "# Exported from uv.lock by `make docs`: do not edit.\n"


def export_requirements(root: Path, *groups: str) -> str:
    """What the image needs at run time; with groups, what these dependency groups need instead."""
    extras = [f"--extra={extra}" for extra in IMAGE_EXTRAS]
    chosen = [f"--only-group={group}" for group in groups] or ["--no-default-groups", *extras]
    command = [find_uv(), "export", "--frozen", *chosen, "--no-emit-project", "--no-header", "--no-annotate", "--quiet"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return _HEADER + done.stdout
