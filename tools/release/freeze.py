"""Freezes what this version installs, stores and records, for the tests of later versions.

    PYTHONPATH=. .venv/bin/python tools/release/freeze.py      # two minutes, once the control plane is compiled

All components run on a control plane with simulated nodes, and record. The folder of the version in `tests/releases`
then has the packaged chart, VPAs and checkpoints as the API server stores them, a dump, and the recordings.
"""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import yaml

from testbed import workloads
from testbed.cluster import Cluster
from testbed.control_plane import ControlPlane
from testbed.controllers import run_controller
from testbed.keeper import list_definitions
from testbed.kwok.annotations import USAGE_CPU, USAGE_MEMORY, USAGE_SPREAD
from testbed.kwok.nodes import Node
from testbed.scratch import scratch
from testbed.waiting import until
from trellis import __version__

ROOT: Final = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tools"))

from release.chart import package_chart  # noqa: E402

RELEASES: Final = ROOT / "tests" / "releases"
TRELLIS: Final = Path(sys.executable).with_name("trellis")

# Commands that record, with flags that let them act within seconds.
RECORDING: Final = {
    "recommender": (
        "--recommender-interval=5s",
        "--confidence-interval-cpu=1s",
        "--confidence-interval-memory=1s",
        "--memory-aggregation-interval=15s",  # so that checkpoints have memory peaks
    ),
    "updater": ("--updater-interval=5s",),
    "hvpa": (),
    "buffers": (),
    "nodes": ("--scan-interval=5s",),
}
_SAMPLES: Final = 4
_VPA_GROUP: Final = "/apis/autoscaling.k8s.io/v1/namespaces/default"
_OWN_GROUP: Final = "/apis/autoscaling.x-k8s.io/v1alpha1/namespaces/default"
_CHECKPOINTS: Final = f"{_VPA_GROUP}/verticalpodautoscalercheckpoints"
_OBJECTS: Final = (
    f"{_VPA_GROUP}/verticalpodautoscalers",
    _CHECKPOINTS,
    f"{_OWN_GROUP}/hvpas",
    f"{_OWN_GROUP}/buffers",
)
_MOST_SECONDS: Final = 300.0


def main() -> None:
    """Write the folder of this version anew."""
    target = RELEASES / __version__
    with tempfile.TemporaryDirectory() as name:
        made = Path(name) / __version__
        (made / "recordings").mkdir(parents=True)
        (made / f"trellis-{__version__}.tgz").write_bytes(package_chart(ROOT))
        nodes = tuple(Node(name=f"node-{zone}", cpu="8", memory="32Gi", zone=f"zone-{zone}") for zone in "abc")
        with (
            scratch() as directory,
            ControlPlane(directory, initial_nodes=nodes, definitions=list_definitions()) as plane,
        ):
            record(plane.cluster, made, Path(name))
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(made, target)
    sys.stdout.write(f"wrote {target.relative_to(ROOT)}\n")


def record(cluster: Cluster, made: Path, logs: Path) -> None:
    """Run the components on some workloads until each of them has decided, and save what there is then."""
    for document in list_workloads():
        cluster.api.create(document, document["metadata"].get("namespace", "default"))
    with ExitStack() as stack:
        for component, flags in RECORDING.items():
            file = made / "recordings" / f"{component}.jsonl.gz"
            arguments = [*flags, f"--record={file}"]
            stack.enter_context(
                run_controller([TRELLIS, component], cluster.kubeconfig, logs / f"{component}.log", arguments)
            )
        until("decisions of all components", lambda: has_decisions(cluster), _MOST_SECONDS)
        objects = [clean(it) for path in _OBJECTS for it in cluster.api.list_items(path)]
        (made / "objects.json").write_text(json.dumps(objects, indent=1) + "\n")
        where = [f"--kubeconfig={cluster.kubeconfig}", f"--output-file={made / 'dump.jsonl.gz'}"]
        subprocess.run([TRELLIS, "dump", "--quiet", *where], check=True)
    for file in (made / "dump.jsonl.gz", *(made / "recordings").iterdir()):
        forget_machine(file, cluster, made)


def forget_machine(file: Path, cluster: Cluster, made: Path) -> None:
    """Leave out of a file what only this machine has: names of files, and its own name."""
    text = gzip.decompress(file.read_bytes()).decode()
    text = text.replace(str(cluster.kubeconfig), "kubeconfig").replace(f"{made}/", "")
    text = text.replace(f'"host":"{socket.gethostname()}"', '"host":"machine"')
    file.write_bytes(gzip.compress(text.encode(), mtime=0))
    file.chmod(0o644)


def list_workloads() -> Iterator[dict[str, Any]]:
    """Workloads that use less than they request, or more, and what scales them."""
    usage = {USAGE_CPU: "150m", USAGE_MEMORY: "300Mi", USAGE_SPREAD: "0.3"}
    yield workloads.deployment("web", workloads.container(cpu="500m"), replicas=3, annotations=usage)
    usage = {USAGE_CPU: "4500m", USAGE_MEMORY: "5Gi", USAGE_SPREAD: "0.2"}
    container = workloads.container(cpu="4", memory="5G")
    yield workloads.deployment("search", container, replicas=3, annotations=usage)
    for file in ("web/autoscaling.yaml", "hvpa/first-example.yaml"):
        yield from yaml.safe_load_all((ROOT / "examples" / file).read_text())
    groups = (ROOT / "examples" / "nodes" / "kwok-groups.yaml").read_text()
    metadata = {"name": "trellis-kwok-node-groups", "namespace": "kube-system"}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"groups.yaml": groups}}
    # Fits on no node: one is ordered.
    yield workloads.deployment("batch", workloads.container(cpu="6"), replicas=2)


def has_decisions(cluster: Cluster) -> bool:
    """Whether usage has been sampled for a while, a pod was resized, and the others have published a status."""
    sampled = [it for it in cluster.api.list_items(_CHECKPOINTS) if has_samples(it["status"])]
    published = [it for path in _OBJECTS[2:] for it in cluster.api.list_items(path)]
    resized = [pod for pod in cluster.list_pods("default", "web") if is_resized(pod)]
    pods = cluster.list_pods("default", "batch")
    scheduled = [pod for pod in pods if pod["spec"].get("nodeName")]
    return bool(
        len(sampled) > 1 and resized and len(scheduled) == len(pods) and all("status" in it for it in published)
    )


def has_samples(status: dict[str, Any]) -> bool:
    """Whether a checkpoint has some usage of CPU, and a peak of memory."""
    samples: int = status["totalSamplesCount"]
    return samples >= _SAMPLES and bool(status["memoryHistogram"]["bucketWeights"])


def is_resized(pod: dict[str, Any]) -> bool:
    """Whether a pod no longer has the request of its template."""
    requests: dict[str, str] = pod["spec"]["containers"][0]["resources"]["requests"]
    return requests["cpu"] != "500m"


def clean(document: dict[str, Any]) -> dict[str, Any]:
    """An object as it can be created elsewhere."""
    metadata = {
        key: document["metadata"][key] for key in ("name", "labels", "annotations") if key in document["metadata"]
    }
    return document | {"metadata": metadata}


if __name__ == "__main__":
    main()
