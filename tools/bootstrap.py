"""Make `.venv` from the lock: the one step that runs before anything is installed, so standard library only.

uv is taken from PATH; without it, it is installed into `.tools` of this checkout with whatever this Python has (pip,
or venv with ensurepip). Arguments are handed to `uv sync`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
GO_WANTED = (1, 26)


def find_uv() -> str:
    """The uv to use, installed into the checkout if there is none."""
    result = shutil.which("uv") or find_local_uv()
    if result:
        return result
    print("uv is not on PATH: installing it into .tools", file=sys.stderr)
    quiet = ["--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]
    if is_runnable([sys.executable, "-m", "venv", str(TOOLS)]):
        subprocess.run([str(TOOLS / "bin" / "python"), "-m", "pip", "install", *quiet, "uv"], check=True)
    elif is_runnable([sys.executable, "-m", "pip", "--version"]):
        prefix = ["--prefix", str(TOOLS)]
        subprocess.run([sys.executable, "-m", "pip", "install", *quiet, *prefix, "uv"], check=True)
    installed = find_local_uv()
    if installed is None:
        sys.exit(
            "trellis: this Python has neither pip nor a working venv module, so uv cannot be installed.\n"
            "Install one of them (Debian, Ubuntu: apt-get install python3-venv) or put uv on PATH, then try again."
        )
    return installed


def find_local_uv() -> str | None:
    """The uv that an earlier run put into `.tools` (Debian's pip adds `local/` below a prefix)."""
    places = (TOOLS / "bin" / "uv", TOOLS / "local" / "bin" / "uv")
    return next((str(place) for place in places if place.exists()), None)


def choose_go_flags() -> list[str]:
    """The group that brings a Go toolchain, unless this machine has one: tests compile the API server's own code."""
    go = shutil.which("go")
    if go is None:
        return ["--group", "go"]
    stdout = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout
    result = re.search(r"go(\d+)\.(\d+)", stdout)
    recent = result is not None and (int(result[1]), int(result[2])) >= GO_WANTED
    return [] if recent else ["--group", "go"]


def is_runnable(command: list[str]) -> bool:
    """Whether a command exists and succeeds."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def main() -> None:
    """Create or update `.venv`."""
    if sys.version_info < (3, 11):  # noqa: UP036 -- this file runs under whatever `python3` is
        sys.exit(f"trellis: Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    # Bytecode is compiled at install time: imports are three times slower where Python may not write it itself.
    # What an earlier run added, such as the group for benchmarks, stays.
    options = ["--locked", "--inexact", "--compile-bytecode", "--quiet", *choose_go_flags(), *sys.argv[1:]]
    command = [find_uv(), "sync", *options]
    print("installing Trellis and its tools into .venv, which may take a minute the first time", file=sys.stderr)
    environment = {**os.environ, "UV_PYTHON": sys.executable, "UV_PROJECT_ENVIRONMENT": str(ROOT / ".venv")}
    sys.exit(subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
