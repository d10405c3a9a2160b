"""Compiles the programs on this machine.

They are compiled from their Go modules, once per user and version, into the user's cache: about 0.5 GB for the
control plane and 0.3 GB for the peers that stay, and Go's own caches, which Go trims by itself. A program is compiled
when it is first used. `$KUBEBUILDER_ASSETS` spares the programs that it holds; an API server from there may
be of another version.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from testbed.programs.cache import cache_directory, hold_lock, write_atomically
from testbed.programs.go import Report, find_go, run_go
from testbed.programs.sources import Sources, by_sources
from testbed.programs.versions import NEEDED, Program


def print_progress(line: str) -> None:
    """Print progress at once."""
    sys.stderr.write(f"testbed: {line}\n")
    sys.stderr.flush()


def ensure_programs(programs: Iterable[Program] = NEEDED, report: Report = print_progress) -> dict[str, Path]:
    """Every program by name, compiled first if it never was. Several processes may ask; one compiles."""
    result: dict[str, Path] = {}
    for sources, members in by_sources(programs):
        result |= _ensure_from_sources(sources, members, report)
    return result


def _ensure_from_sources(sources: Sources, programs: list[Program], report: Report) -> dict[str, Path]:
    home = cache_directory() / sources.home
    result = {program.name: _find_provided(program) or home / program.name for program in programs}

    def missing() -> list[Program]:
        return [program for program in programs if not result[program.name].exists()]

    if missing():
        with hold_lock(home / ".lock", busy=lambda: report(f"another process is compiling {sources.title}; waiting")):
            _compile(sources, missing(), home, report)
    return result


def _find_provided(program: Program) -> Path | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    provided = Path(assets) / program.name
    return provided if assets and provided.exists() else None


def _compile(sources: Sources, programs: list[Program], home: Path, report: Report) -> None:
    if not programs:  # another process did it while this one waited
        return
    with tempfile.TemporaryDirectory(prefix="trellis-testbed-build-") as name:
        module = Path(name)
        sources.write(module)
        go = find_go(module)
        minutes = sum(program.minutes for program in programs)
        report(f"compiling {sources.title} with {go}: once, about {minutes:.0f} minutes on two cores")
        sources.complete(module, go)
        started = time.monotonic()
        for number, program in enumerate(programs, 1):
            label = f"{program.name} ({number} of {len(programs)})"
            with write_atomically(home / program.name) as target:
                flags = [*sources.flags, "-buildvcs=false", "-trimpath"]
                run_go([go, "build", *flags, "-o", target, program.package], module, report, label)
        report(f"compiled in {time.monotonic() - started:.0f} s into {home}")
