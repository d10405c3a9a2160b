"""How do the programs come onto this machine?

They are compiled from their Go modules, once per user and version, into the user's cache: about 0.5 GB
that stays, and Go's own caches, which Go trims by itself. `$KUBEBUILDER_ASSETS` spares the programs that
it holds; an API server from there may be of another version.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from testbed.cache import cache_directory, only_one, unfinished
from testbed.errors import BuildFailed
from testbed.go import find_go
from testbed.programs import GO, KUBERNETES, MODULES, NEEDED, Program

# etcd offers its server as a library only in this form; its own main package has a module of its own.
ETCD_MAIN = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""

# How often a build that takes minutes says that it is alive.
HEARTBEAT_SECONDS = 20.0

Say = Callable[[str], None]


def say_on_stderr(line: str) -> None:
    """Progress is for whoever waits, at once."""
    sys.stderr.write(f"testbed: {line}\n")
    sys.stderr.flush()


def ensure(programs: Iterable[Program] = NEEDED, say: Say = say_on_stderr) -> dict[str, Path]:
    """Every program by name, compiled first if it never was. Several processes may ask; one compiles."""
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    home = _home()
    found: dict[str, Path] = {}
    missing: list[Program] = []
    for program in programs:
        provided = Path(assets) / program.name
        found[program.name] = provided if assets and provided.exists() else home / program.name
        if not found[program.name].exists():
            missing.append(program)
    if missing:
        with only_one(home / ".lock", busy=lambda: say("another process is compiling the control plane; waiting")):
            _compile([program for program in missing if not found[program.name].exists()], home, say)
    return found


def _home() -> Path:
    """Named by what goes in: another version is another directory, and old ones stay usable."""
    ingredients = json.dumps([MODULES, GO, ETCD_MAIN, _linker_flags(), platform.system(), platform.machine()])
    return cache_directory() / f"kubernetes-{KUBERNETES}-{hashlib.sha256(ingredients.encode()).hexdigest()[:12]}"


def _linker_flags() -> str:
    """Without these the API server calls itself v0.0.0, and clients that look at versions misbehave."""
    major, minor, _ = KUBERNETES.split(".")
    values = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in values.items())])


def _compile(programs: list[Program], home: Path, say: Say) -> None:
    if not programs:  # another process did it while this one waited
        return
    with tempfile.TemporaryDirectory(prefix="trellis-testbed-build-") as name:
        module = Path(name)
        (module / "go.mod").write_text(f"module trellis.test/testbed\n\ngo {GO}\n")
        go = find_go(module)
        minutes = sum(program.minutes for program in programs)
        say(f"compiling Kubernetes {KUBERNETES} with {go}: once, about {minutes:.0f} minutes on two cores")
        _write_module(go, module)
        started = time.monotonic()
        for number, program in enumerate(programs, 1):
            label = f"{program.name} ({number} of {len(programs)})"
            with unfinished(home / program.name) as target:
                flags = ["-mod=mod", "-buildvcs=false", "-trimpath", "-ldflags", _linker_flags()]
                _run([go, "build", *flags, "-o", target, program.package], module, say, label)
        say(f"compiled in {time.monotonic() - started:.0f} s into {home}")


def _write_module(go: Path, module: Path) -> None:
    """Kubernetes names its staging modules at v0.0.0; each is published as v0.<minor>.<patch>."""
    asked = f"k8s.io/kubernetes@{MODULES['k8s.io/kubernetes']}"
    answer = json.loads(_run([go, "mod", "download", "-json", asked], module))
    definition = Path(answer["GoMod"]).read_text()
    staged = sorted(set(re.findall(r"(?m)^\s*(\S+) => \./staging/src/", definition)))
    published = f"v0.{KUBERNETES.split('.', 1)[1]}"
    lines = ["require (", *(f"\t{path} {version}" for path, version in MODULES.items()), ")", "", "replace ("]
    lines += [*(f"\t{path} => {path} {published}" for path in staged), ")", ""]
    with (module / "go.mod").open("a") as file:
        file.write("\n" + "\n".join(lines))
    (module / "etcd").mkdir()
    (module / "etcd" / "main.go").write_text(ETCD_MAIN)


def _run(command: list[str | Path], module: Path, say: Say = lambda _: None, label: str = "") -> str:
    """What the command wrote; `say` hears of it now and then until it is done."""
    # Without cgo the result needs no C compiler and no particular C library, as in released Kubernetes.
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    started = time.monotonic()
    say(f"{label} ...")
    with subprocess.Popen(
        command, cwd=module, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        while True:
            try:
                output, complaint = child.communicate(timeout=HEARTBEAT_SECONDS)
                break
            except subprocess.TimeoutExpired:
                say(f"{label}: {time.monotonic() - started:.0f} s ...")
            except BaseException:
                child.kill()
                raise
    if child.returncode:
        raise BuildFailed(f"`{' '.join(map(str, command[:3]))} ...` failed:\n{complaint.strip()[-4000:]}")
    say(f"{label}: done after {time.monotonic() - started:.0f} s")
    return output
