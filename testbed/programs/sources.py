"""The programs that are compiled together, their Go modules and their flags.

Six sets, each resolved as one module so that the libraries its programs share are compiled once: Kubernetes with what
it needs, the container runtime of a real node, the peers, which are made of newer Kubernetes libraries, Helm and other
tools for the chart, kube-score, which is made of older libraries, Cluster API, and Karpenter.
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
from testbed.programs.versions import (
    CLUSTER_API,
    CONTAINER_RUNTIME,
    GO,
    INSTALL_TOOLS,
    KARPENTER_PROGRAMS,
    KUBE_SCORE,
    KUBERNETES,
    MODULES,
    PEERS,
    Program,
)

# etcd offers its server as a library only in this form; its own main package has a module of its own.
ETCD_MAIN = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""

# Where the modules of pinned programs lie.
_MODULES = Path(__file__).parents[1]

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


class PinnedSources:
    """Programs whose versions and checksums, and those of all that they are made of, stand in a folder of ours."""

    def __init__(self, title: str, module: Path, *flags: str) -> None:
        self.title = title
        self.flags = ["-mod=readonly", *flags]
        self._module = module
        # With main functions of our own, if there are any.
        self._files = [module / "go.mod", module / "go.sum", *sorted(module.rglob("*.go"))]
        texts = [file.read_text() for file in self._files]
        self.home = f"{module.name.replace('_', '-')}-{_fingerprint([texts, self.flags, *MACHINE])}"

    def write(self, module: Path) -> None:
        """All there is: versions, checksums and our own main functions."""
        for file in self._files:
            target = module / file.relative_to(self._module)
            target.parent.mkdir(exist_ok=True)
            shutil.copy(file, target)

    def complete(self, module: Path, go: Path) -> None:
        """Nothing is missing."""


def create_peer_sources() -> PinnedSources:
    """Upstream's programs, and Prometheus."""
    # Prometheus without the plug-ins that discover targets in every cloud there is: no test scrapes anything.
    flags = ("-tags", "remove_all_sd", "-ldflags", "-s -w")
    return PinnedSources("upstream's recommender and Prometheus", _MODULES / "peers", *flags)


def _create_runtime_sources() -> PinnedSources:
    module = _MODULES / "container_runtime"
    found = re.search(r"(?m)^require github\.com/containerd/containerd/v2 v(\S+)$", (module / "go.mod").read_text())
    assert found is not None  # noqa: S101 - our own file
    # Without the file systems that need C libraries.
    linker = f"-s -w -X github.com/containerd/containerd/v2/version.Version={found[1]}"
    return PinnedSources("the container runtime", module, "-tags", "no_btrfs no_devmapper no_zfs", "-ldflags", linker)


def _create_install_sources() -> PinnedSources:
    return PinnedSources("Helm and kubeconform", _MODULES / "install_tools", "-ldflags", "-s -w")


def _create_score_sources() -> PinnedSources:
    return PinnedSources("kube-score", _MODULES / "kube_score", "-ldflags", "-s -w")


def _create_cluster_api_sources() -> PinnedSources:
    return PinnedSources("Cluster API", _MODULES / "cluster_api", "-ldflags", "-s -w")


def _create_karpenter_sources() -> PinnedSources:
    return PinnedSources("Karpenter", _MODULES / "karpenter", "-ldflags", "-s -w")


def by_sources(programs: Iterable[Program]) -> list[tuple[Sources, list[Program]]]:
    """The programs, in their order, under the sources that they are compiled from."""
    wanted = list(programs)
    pinned = (*PEERS, *CONTAINER_RUNTIME, *INSTALL_TOOLS, KUBE_SCORE, CLUSTER_API, *KARPENTER_PROGRAMS)
    sets: list[tuple[Sources, list[Program]]] = [
        (ControlPlaneSources(), [program for program in wanted if program not in pinned]),
        (_create_runtime_sources(), [program for program in wanted if program in CONTAINER_RUNTIME]),
        (create_peer_sources(), [program for program in wanted if program in PEERS]),
        (_create_install_sources(), [program for program in wanted if program in INSTALL_TOOLS]),
        (_create_score_sources(), [program for program in wanted if program == KUBE_SCORE]),
        (_create_cluster_api_sources(), [program for program in wanted if program == CLUSTER_API]),
        (_create_karpenter_sources(), [program for program in wanted if program in KARPENTER_PROGRAMS]),
    ]
    return [(sources, members) for sources, members in sets if members]


def _linker_flags() -> str:
    """Without these the API server calls itself v0.0.0, and clients that look at versions misbehave."""
    major, minor, _ = KUBERNETES.split(".")
    values = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in values.items())])


def _fingerprint(ingredients: list[object]) -> str:
    return hashlib.sha256(json.dumps(ingredients).encode()).hexdigest()[:12]
