"""The programs that are compiled together, their Go modules and their flags.

Two sets, each resolved as one module so that the libraries its programs share are compiled once: the control plane,
and the peers. The peers are a set of their own because they are made of newer Kubernetes libraries.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from testbed.programs.go import run_go
from testbed.programs.versions import GO, KUBERNETES, MODULES, PEERS, Program

# etcd offers its server as a library only in this form; its own main package has a module of its own.
ETCD_MAIN = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""

PEER_MODULE = Path(__file__).parents[1] / "peers"

MACHINE = [platform.system(), platform.machine()]


class Sources(Protocol):
    """A set of programs and all that decides what comes out of the compiler."""

    title: str  # shown while it is built
    home: str  # a directory in the cache, named by what goes in: another version is another directory
    flags: list[str]

    def write(self, module: Path) -> None:
        """Write go.mod, naming the Go that is needed, into an empty directory."""

    def complete(self, module: Path, go: Path) -> None:
        """Add what has to be asked of Go first."""


class ControlPlaneSources:
    """Kubernetes, etcd, kwok and metrics-server; their versions stand in `programs`."""

    def __init__(self) -> None:
        self.title = f"Kubernetes {KUBERNETES}"
        linker = _linker_flags()
        self.home = f"kubernetes-{KUBERNETES}-{_fingerprint([MODULES, GO, ETCD_MAIN, linker, *MACHINE])}"
        self.flags = ["-mod=mod", "-ldflags", linker]

    def write(self, module: Path) -> None:
        """Enough to choose a Go by."""
        (module / "go.mod").write_text(f"module trellis.test/testbed\n\ngo {GO}\n")

    def complete(self, module: Path, go: Path) -> None:
        """Kubernetes names its staging modules at v0.0.0; each is published as v0.<minor>.<patch>."""
        asked = f"k8s.io/kubernetes@{MODULES['k8s.io/kubernetes']}"
        answer = json.loads(run_go([go, "mod", "download", "-json", asked], module))
        definition = Path(answer["GoMod"]).read_text()
        staged = sorted(set(re.findall(r"(?m)^\s*(\S+) => \./staging/src/", definition)))
        published = f"v0.{KUBERNETES.split('.', 1)[1]}"
        lines = ["require (", *(f"\t{path} {version}" for path, version in MODULES.items()), ")", "", "replace ("]
        lines += [*(f"\t{path} => {path} {published}" for path in staged), ")", ""]
        with (module / "go.mod").open("a") as file:
            file.write("\n" + "\n".join(lines))
        (module / "etcd").mkdir()
        (module / "etcd" / "main.go").write_text(ETCD_MAIN)


class PeerSources:
    """Upstream's recommender and Prometheus; versions and checksums of all they are made of stand in peers/."""

    def __init__(self) -> None:
        self.title = "upstream's recommender and Prometheus"
        # Prometheus without the plug-ins that discover targets in every cloud there is: no test scrapes anything.
        self.flags = ["-mod=readonly", "-tags", "remove_all_sd", "-ldflags", "-s -w"]
        files = [file.read_text() for file in self._files()]
        self.home = f"peers-{_fingerprint([files, self.flags, *MACHINE])}"

    def write(self, module: Path) -> None:
        """All there is: versions and checksums."""
        for file in self._files():
            shutil.copy(file, module)

    def complete(self, module: Path, go: Path) -> None:
        """Nothing is missing."""

    def _files(self) -> list[Path]:
        return [PEER_MODULE / "go.mod", PEER_MODULE / "go.sum"]


def by_sources(programs: Iterable[Program]) -> list[tuple[Sources, list[Program]]]:
    """The programs, in their order, under the sources that they are compiled from."""
    wanted = list(programs)
    sets: list[tuple[Sources, list[Program]]] = [
        (ControlPlaneSources(), [program for program in wanted if program not in PEERS]),
        (PeerSources(), [program for program in wanted if program in PEERS]),
    ]
    return [(sources, members) for sources, members in sets if members]


def _linker_flags() -> str:
    """Without these the API server calls itself v0.0.0, and clients that look at versions misbehave."""
    major, minor, _ = KUBERNETES.split(".")
    values = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in values.items())])


def _fingerprint(ingredients: list[object]) -> str:
    return hashlib.sha256(json.dumps(ingredients).encode()).hexdigest()[:12]
