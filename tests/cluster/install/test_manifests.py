"""What `trellis install` prints: applied by the real kubectl, and checked by kubeconform and kube-score."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from support.cluster.vpas import vpa, vpa_path
from support.install.clusters import Kubectl, empty_cluster, list_missing, wait_for_deployments
from support.install.helm import Manifest, read_manifests, run
from support.install.schemas import write_schemas
from testbed.cluster import Cluster
from testbed.programs.building import ensure_programs
from testbed.programs.versions import KUBE_SCORE, KUBECONFORM, KUBERNETES
from testbed.waiting import until

NAMESPACE = "trellis-system"
TRELLIS = Path(sys.executable).with_name("trellis")

EVERYTHING = ("--set=networkPolicies.enabled=true", "--set=rbac.userRoles=true")
VARIANTS: list[Sequence[str]] = [
    ("--preset=drop-in", *EVERYTHING),
    ("--preset=full", *EVERYTHING, "--set=grafanaDashboards.enabled=true"),
    ("--preset=read-only", *EVERYTHING),
    ("--preset=advisor", *EVERYTHING),
    ("--preset=full", "--set=processes=separate", "--set=configuration={updater: {minReplicas: 1}}"),
    (
        "--preset=drop-in",
        "--set=nodeProviderServer.enabled=true",
        "--set=nodeProviderServer.cloudProviders=[clusterapi]",
        "--set=nodeProviderServer.certificateSecret=machines",
    ),
    ("--preset=full", "--set=processes=single", "--set=priorityClass.create=true", "--set=priorityClass.name=own"),
]

# The tests of kube-score that the manifests do not pass, and why.
EXCEPTIONS = {
    "container-resources": "no CPU limit: it would delay reviews, resizes and scaling just when the nodes are busy",
    "container-image-tag": "no image is published: the tag is chosen by those who build it",
    "container-image-pull-policy": "IfNotPresent: tags are not reused, and a registry that is down stops no restart",
    "deployment-has-host-podantiaffinity": "topologySpreadConstraints spread the pods over nodes and zones",
    "container-ephemeral-storage-request-and-limit": "the root file system is read-only, and logs are the kubelet's",
    "container-security-context-user-group-id": "65534 is nobody, which the image has; kube-score wants above 10000",
}


def install(*arguments: str) -> str:
    """What `trellis install` prints."""
    return run([TRELLIS, "install", *arguments]).check()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """An empty cluster for the tests of this module, which follow one another."""
    with empty_cluster() as cluster:
        yield cluster


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path) -> Kubectl:
    return Kubectl(cluster, tmp_path)


@pytest.mark.parametrize("flags", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_one_apply_installs_everything_and_one_delete_removes_it(
    cluster: Cluster, kubectl: Kubectl, flags: Sequence[str]
) -> None:
    text = install("--preset=full")
    manifests = read_manifests(text)
    kubectl.run("apply", *flags, "-f", "-", text=text).check()
    wait_for_deployments(cluster, NAMESPACE, {"trellis": 2, "vpa-admission-controller": 2})
    assert list_missing(cluster, manifests) == []
    cluster.api.create(vpa("web"), "default")
    # A second time there is nothing to do. kubectl always patches the selector of a PodDisruptionBudget.
    again = kubectl.run("apply", *flags, "-f", "-", text=text).check()
    done = ("unchanged", "serverside-applied")
    assert {line.partition("/")[0] for line in again.splitlines() if not line.endswith(done)} <= {
        "poddisruptionbudget.policy"
    }

    kubectl.run("delete", "--ignore-not-found", "-f", "-", text=install("--preset=full", "--to-delete")).check()
    kept = [it for it in manifests if it["kind"] in ("CustomResourceDefinition", "Namespace")]
    others = [it for it in manifests if it not in kept]
    until("the objects to be gone", lambda: len(list_missing(cluster, others)) == len(others))
    assert list_missing(cluster, kept) == []
    cluster.api.delete(vpa_path("default", "web"))


@pytest.fixture(scope="module")
def schemas(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The schemas of everything that the API server serves, with our definitions."""
    definitions = [it for it in read_manifests(install()) if it["kind"] == "CustomResourceDefinition"]
    for definition in definitions:
        cluster.api.apply(definition)
    return write_schemas(cluster, tmp_path_factory.mktemp("schemas"), definitions)


@pytest.mark.parametrize("arguments", VARIANTS, ids=" ".join)
def test_kubeconform_finds_no_field_that_the_api_server_does_not_know(
    schemas: Path, arguments: Sequence[str], tmp_path: Path
) -> None:
    file = tmp_path / "manifests.yaml"
    file.write_text(install(*arguments))
    location = f"{schemas}/{{{{.ResourceKind}}}}-{{{{.Group}}}}-{{{{.ResourceAPIVersion}}}}.json"
    program = ensure_programs([KUBECONFORM])[KUBECONFORM.name]
    result = run([program, "-strict", "-summary", "-output=json", "-schema-location", location, file])
    report = json.loads(result.output)
    assert report.get("resources", []) == [], report["resources"][0]["msg"]
    assert (report["summary"]["invalid"], report["summary"]["errors"], report["summary"]["skipped"]) == (0, 0, 0)
    assert report["summary"]["valid"] == len(read_manifests(file.read_text()))


@pytest.mark.parametrize("arguments", VARIANTS[:4], ids=" ".join)
def test_kube_score_finds_only_what_we_have_a_reason_for(arguments: Sequence[str], tmp_path: Path) -> None:
    scored: list[Manifest] = [
        it for it in read_manifests(install(*arguments, "--image=registry.example/trellis:1.2.3"))
        if it["kind"] != "CustomResourceDefinition"
    ]  # fmt: skip
    file = tmp_path / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(scored))
    program = ensure_programs([KUBE_SCORE])[KUBE_SCORE.name]
    version = KUBERNETES.rpartition(".")[0]
    result = run([program, "score", "--kubernetes-version", f"v{version}", "--output-format=json", file])
    objects = json.loads(result.output)
    assert objects
    found = {
        check["check"]["id"]: f"{it['object_name']}: {check['check']['name']}: {check['comments']}"
        for it in objects
        for check in it["checks"] or ()
        if not check["skipped"] and check["grade"] < 10
    }
    assert {name: text for name, text in found.items() if name not in EXCEPTIONS} == {}
