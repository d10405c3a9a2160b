"""Where is the oracle's program, and how is it made?

Compiling it takes a minute or two, so the result is kept in the user's cache under a name that
follows from the sources: a changed source is a new program, and an old checkout finds its own again.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
from pathlib import Path

from testbed.errors import GoMissing
from testbed.programs.cache import cache_directory, hold_lock, write_atomically
from testbed.programs.go import find_go

SOURCES = Path(__file__).parent


class NoOracleError(RuntimeError):
    """The oracle cannot be built here. The message says what is missing."""


def program() -> Path:
    """The program, compiled first if it never was. Several processes may ask at once; one compiles."""
    built = cache_directory() / f"oracle-{_fingerprint()}"
    if built.exists():
        return built
    with hold_lock(built.with_suffix(".lock")):
        if not built.exists():
            _compile(built)
    return built


def _fingerprint() -> str:
    """Of the sources and of the machine: a home directory may be shared between architectures."""
    digest = hashlib.sha256(f"{platform.system()}/{platform.machine()}".encode())
    for source in sorted([*SOURCES.glob("*.go"), SOURCES / "go.mod", SOURCES / "go.sum"]):
        content = source.read_bytes()
        digest.update(f"\n{source.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _compile(built: Path) -> None:
    try:
        go = find_go(SOURCES)
    except GoMissing as missing:
        raise NoOracleError(f"the oracle cannot be compiled: {missing}") from missing
    sys.stderr.write(f"compiling the oracle with {go} (once; one to four minutes)\n")
    sys.stderr.flush()
    with write_atomically(built) as target:
        done = subprocess.run(
            [go, "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", target, "."],
            cwd=SOURCES,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NoOracleError(f"go build failed:\n{done.stderr.strip()[-4000:]}")
