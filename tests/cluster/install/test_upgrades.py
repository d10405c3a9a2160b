"""Charts of earlier commits, which are kept as fixtures, are upgraded to the present one.

`tests/releases` has a packaged chart for each release, with objects as its components stored them.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from support.install.clusters import connect_helm, empty_cluster, list_missing, wait_for_deployments
from support.install.helm import CHART, Helm, read_manifests
from support.install.releases import RELEASES, assert_stored, find_chart, is_close, read_objects, store
from testbed import workloads
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import run_controller
from testbed.programs.versions import HELM_3, HELM_4, Program
from testbed.waiting import until
from trellis.api.schema.crds import build_crds

NAMESPACE = "trellis-system"
RELEASE = ("trellis", "--namespace", NAMESPACE)
WAIT = ("--wait", "--timeout", "3m")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITIONS = {it["metadata"]["name"]: it for it in build_crds()}


def assert_running(cluster: Cluster, helm: Helm) -> None:
    """Everything in the release is there, and its pods are ready."""
    installed = read_manifests(helm.run("get", "manifest", *RELEASE).check())
    assert list_missing(cluster, installed) == []
    names = [it["metadata"]["name"] for it in installed if it["kind"] == "Deployment"]
    wait_for_deployments(cluster, NAMESPACE, dict.fromkeys(names, 2))


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
@pytest.mark.parametrize("preset", ["full", "drop-in"])
def test_an_earlier_chart_is_upgraded_and_rolled_back_and_what_was_stored_stays(
    release: Path, preset: str, tmp_path: Path
) -> None:
    with empty_cluster() as cluster:
        helm = connect_helm(HELM_4, tmp_path, cluster)
        helm.run(
            "install", *RELEASE, find_chart(release), "--create-namespace", "--set", f"preset={preset}", *WAIT
        ).check()
        before = {name: cluster.api.get(f"{CRDS}/{name}")["spec"] for name in DEFINITIONS}
        stored = store(cluster, read_objects(release))

        helm.run("upgrade", *RELEASE, CHART, "--reset-then-reuse-values", *WAIT).check()
        assert_running(cluster, helm)
        assert_stored(cluster, stored)
        for name, definition in DEFINITIONS.items():
            served = cluster.api.get(f"{CRDS}/{name}")["spec"]["versions"]
            assert [it["schema"] for it in served] == [it["schema"] for it in definition["spec"]["versions"]]

        helm.run("rollback", "trellis", "1", "--namespace", NAMESPACE, *WAIT).check()
        assert_running(cluster, helm)
        assert_stored(cluster, stored)
        assert {name: cluster.api.get(f"{CRDS}/{name}")["spec"] for name in DEFINITIONS} == before

        helm.run("uninstall", *RELEASE, "--wait").check()
        assert_stored(cluster, stored)


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_the_recommender_continues_from_the_checkpoints_of_an_earlier_release(release: Path, tmp_path: Path) -> None:
    with empty_cluster() as cluster:
        helm = connect_helm(HELM_4, tmp_path, cluster)
        helm.run("install", *RELEASE, CHART, "--create-namespace", *WAIT).check()
        stored = store(cluster, read_objects(release))
        [before] = [it for it in stored if (it["kind"], it["metadata"]["name"]) == ("VerticalPodAutoscaler", "web")]
        path = cluster.api.get_path(before, "default")
        cluster.api.patch(f"{path}/status", {"status": {"recommendation": None}})
        cluster.api.create(workloads.deployment("web"), "default")

        # The pods of kwok run no program. Without metrics-server there is no usage but that of the checkpoints.
        command = [str(Path(sys.executable).with_name("trellis")), "recommender"]
        with run_controller(command, cluster.kubeconfig, tmp_path / "log", ["--recommender-interval=1s"]):
            status = until("a recommendation", lambda: find_recommended(cluster, path))
        [container] = before["status"]["recommendation"]["containerRecommendations"]
        [now] = status["recommendation"]["containerRecommendations"]
        assert is_close(now["target"], container["target"])


@pytest.mark.parametrize("program", [HELM_4, HELM_3], ids=lambda program: program.name)
def test_an_upgrade_keeps_what_users_chose_and_adds_values_that_are_new(program: Program, tmp_path: Path) -> None:
    earlier = tmp_path / "trellis"
    shutil.copytree(CHART, earlier)
    for name in ("serviceMonitor", "podMonitor"):
        remove_value(earlier, name)
    with empty_cluster() as cluster:
        helm = connect_helm(program, tmp_path, cluster)
        helm.run("install", *RELEASE, earlier, "--create-namespace", "--set", "replicas=1").check()
        refused = helm.run("upgrade", *RELEASE, CHART, "--reuse-values")
        assert "missing propert" in refused.errors
        helm.run("upgrade", *RELEASE, CHART, "--reset-then-reuse-values").check()
        values = json.loads(helm.run("get", "values", *RELEASE, "-o", "json").check())
        assert values == {"replicas": 1}


def remove_value(chart: Path, name: str) -> None:
    """Leave a value out of a chart that does not use it otherwise, as if it came later."""
    values, schema = chart / "values.yaml", chart / "values.schema.json"
    documents = {values: yaml.safe_load(values.read_text()), schema: json.loads(schema.read_text())}
    del documents[values][name]
    del documents[schema]["properties"][name]
    documents[schema]["required"].remove(name)
    for file, document in documents.items():
        file.write_text(json.dumps(document))
    for template in (chart / "templates").glob("*.yaml"):
        if f".Values.{name}" in template.read_text():
            template.unlink()


def find_recommended(cluster: Cluster, path: str) -> Json | None:
    """The status of a VPA with a recommendation."""
    status: Json = cluster.api.get(path)["status"]
    return status if status.get("recommendation") else None


def test_there_is_a_chart_to_upgrade_from() -> None:
    assert RELEASES
