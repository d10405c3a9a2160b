"""Compiles the programs on this machine.

They are compiled from their Go modules, once per user and version, into the user's cache: about 0.5 GB for the
control plane and 0.3 GB for the peers that stay, and Go's own caches, which Go trims by itself. A program is compiled
when somebody first asks for it. `$KUBEBUILDER_ASSETS` spares the programs that it holds; an API server from there may
be of another version.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from testbed.programs.cache import cache_directory, only_one, unfinished
from testbed.programs.go import Say, find_go, run
from testbed.programs.sources import Sources, by_sources
from testbed.programs.versions import NEEDED, Program


def say_on_stderr(line: str) -> None:
    """Print progress at once."""
    sys.stderr.write(f"testbed: {line}\n")
    sys.stderr.flush()


def ensure(programs: Iterable[Program] = NEEDED, say: Say = say_on_stderr) -> dict[str, Path]:
    """Every program by name, compiled first if it never was. Several processes may ask; one compiles."""
    result: dict[str, Path] = {}
    for sources, members in by_sources(programs):
        result |= _ensure_of_one(sources, members, say)
    return result


def _ensure_of_one(sources: Sources, programs: list[Program], say: Say) -> dict[str, Path]:
    home = cache_directory() / sources.home
    result = {program.name: _provided(program) or home / program.name for program in programs}

    def missing() -> list[Program]:
        return [program for program in programs if not result[program.name].exists()]

    if missing():
        with only_one(home / ".lock", busy=lambda: say(f"another process is compiling {sources.title}; waiting")):
            _compile(sources, missing(), home, say)
    return result


def _provided(program: Program) -> Path | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    provided = Path(assets) / program.name
    return provided if assets and provided.exists() else None


def _compile(sources: Sources, programs: list[Program], home: Path, say: Say) -> None:
    if not programs:  # another process did it while this one waited
        return
    with tempfile.TemporaryDirectory(prefix="trellis-testbed-build-") as name:
        module = Path(name)
        sources.write(module)
        go = find_go(module)
        minutes = sum(program.minutes for program in programs)
        say(f"compiling {sources.title} with {go}: once, about {minutes:.0f} minutes on two cores")
        sources.complete(module, go)
        started = time.monotonic()
        for number, program in enumerate(programs, 1):
            label = f"{program.name} ({number} of {len(programs)})"
            with unfinished(home / program.name) as target:
                flags = [*sources.flags, "-buildvcs=false", "-trimpath"]
                run([go, "build", *flags, "-o", target, program.package], module, say, label)
        say(f"compiled in {time.monotonic() - started:.0f} s into {home}")
