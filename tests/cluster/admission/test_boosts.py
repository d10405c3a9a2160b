"""What a boost makes of new pods on a real control plane: the proposal's examples, and what a boost must not touch."""

from __future__ import annotations

import pytest
import yaml

from support.cluster.admission import (
    BOOST,
    OBSERVED,
    SIZED,
    UPDATES,
    Start,
    advise,
    boosted,
    cpu,
    create_vpa,
    resources,
    sized_container,
    wait_for_current_advice,
    wait_for_webhook_calls,
)
from support.cluster.vpas import vpa, vpa_path
from testbed.access.shipped_accounts import ROOT
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.errors import Refused
from testbed.waiting import until
from testbed.workloads import deployment

FOLDER = ROOT / "examples" / "startup-boost"
NAMED, PLAIN = "boosted-container-name", "disable-cpu-boost-for-this-container"
FACTOR: Json = {"startupBoost": {"cpu": {"type": "Factor", "factor": 3}}}

# By example and container, each of which requests 500m and 128Mi: the CPU and memory recommended, what it starts with,
# and whether that is a boost.
EXAMPLES = {
    "boost-only": {"app": ("800m 300Mi", "1500m 128Mi", True)},
    "no-boost": {"app": ("800m 300Mi", "800m 300Mi", False), "proxy": ("100m 64Mi", "100m 64Mi", False)},
    "boost-and-scaling": {"app": ("400m 300Mi", "1200m 300Mi", True), "proxy": ("100m 64Mi", "300m 64Mi", True)},
    "container-boost-only": {NAMED: ("800m 300Mi", "2500m 128Mi", True), "app": ("300m 64Mi", "300m 64Mi", False)},
    "container-without-boost": {
        PLAIN: ("300m 300Mi", "300m 300Mi", False),
        "app": ("200m 64Mi", "400m 64Mi", True),
        "proxy": ("100m 64Mi", "200m 64Mi", True),
    },
    "container-boost-and-scaling": {
        NAMED: ("2000m 1Gi", "4500m 600Mi", True),
        "app": ("300m 64Mi", "300m 64Mi", False),
    },
}


def pod_of(cluster: Cluster, namespace: str, app: str) -> Json:
    """The pod of a Deployment, which has one."""
    return until(f"a pod of {app}", lambda: next(iter(cluster.list_pods(namespace, app)), None))


def start_example(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """Apply an example, recommend, and return what the API server warned of. Examples have a namespace each."""
    [document] = yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text())
    spec = document["spec"] | {"targetRef": document["spec"]["targetRef"] | {"name": name}}
    wanted = document | {"metadata": {"name": name}, "spec": spec}
    path = cluster.api.get_path(wanted, namespace, named=False)
    _, warnings = cluster.api.send_with_warnings("POST", path, wanted)
    targets = {
        container_name: dict(zip(("cpu", "memory"), row[0].split(), strict=True))
        for container_name, row in EXAMPLES[name].items()
    }
    advise(cluster, namespace, name, targets)
    return warnings


@pytest.mark.req("SB-03", "SB-42", "SB-48", "SB-50", "SB-51", "SB-52", "SB-53", "SB-54", "SB-55")
def test_pods_of_every_example_of_the_proposal_start_with_what_its_comment_says(
    cluster: Cluster, namespace: str, admission: Start
) -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == EXAMPLES.keys()
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    warnings = {name: start_example(cluster, namespace, name) for name in EXAMPLES}
    wait_for_current_advice(cluster, namespace)
    for name, rows in EXAMPLES.items():
        cluster.api.create(deployment(name, *(sized_container(row) for row in rows)), namespace)
    for name, rows in EXAMPLES.items():
        made = pod_of(cluster, namespace, name)
        result = {
            container_name: " ".join(set_["requests"].values()) for container_name, set_ in resources(made).items()
        }
        assert result == {container_name: starts for container_name, (_, starts, _) in rows.items()}, name
        assert boosted(made) == {container_name for container_name, (_, _, is_boost) in rows.items() if is_boost}, name
    deprecated = {
        name for name, warning in warnings.items() if any('"Auto" mode is deprecated' in message for message in warning)
    }
    assert deprecated == {"no-boost", "boost-and-scaling"}


@pytest.mark.req("SB-04", "SB-21", "SB-23")
def test_a_boost_alone_changes_nothing_but_cpu_and_no_quality_of_service(
    cluster: Cluster, namespace: str, admission: Start
) -> None:
    capped = {**FACTOR, "updatePolicy": {"updateMode": "Off"}}
    only = {"resourcePolicy": {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}}
    create_vpa(cluster, namespace, "off", {"app": {"cpu": "800m", "memory": "1Gi"}}, **capped)
    create_vpa(cluster, namespace, "requests-only", {}, **FACTOR, **only)
    ten = {"startupBoost": {"cpu": {"type": "Factor", "factor": 10}}}
    create_vpa(cluster, namespace, "capped", {}, **ten)
    admission(namespace, "--max-allowed-cpu-boost=2")
    wait_for_webhook_calls(cluster, namespace)
    wait_for_current_advice(cluster, namespace)
    for name in ("off", "requests-only", "capped", "nobody"):
        cluster.api.create(deployment(name, sized_container(limit="1"), sized_container("proxy", "100m")), namespace)
    result = {name: pod_of(cluster, namespace, name) for name in ("off", "requests-only", "capped", "nobody")}

    def cpus(name: str) -> tuple[str, str]:
        got = resources(result[name])["app"]
        return got["requests"]["cpu"], got["limits"]["cpu"]

    assert cpus("off") == ("1500m", "3")
    assert cpus("requests-only") == ("999m", "1")
    assert cpus("capped") == ("2", "4")
    assert {pod["status"]["qosClass"] for pod in result.values()} == {"Burstable"}
    notes = {BOOST + "app", BOOST + "proxy", OBSERVED, UPDATES, SIZED}
    assert result["off"]["metadata"]["annotations"].keys() == notes
    assert without_cpu(result["off"]) == without_cpu(result["nobody"])


def without_cpu(made: Json) -> list[Json]:
    """The containers of a pod but for their CPU, and for the token that each pod mounts under its own name."""
    containers = made["spec"]["containers"]
    for container in containers:
        container.pop("volumeMounts", None)
        for amounts in container["resources"].values():
            amounts.pop("cpu", None)
    result: list[Json] = containers
    return result


@pytest.mark.req("SB-43", "SB-44", "SB-45")
def test_without_the_gate_nothing_is_boosted_and_new_boosts_are_refused_but_stored_objects_stay_editable(
    cluster: Cluster, namespace: str, admission: Start
) -> None:
    create_vpa(cluster, namespace, "stored", {"app": {"cpu": "300m"}}, **FACTOR)
    create_vpa(cluster, namespace, "sober", {"app": {"cpu": "300m"}})
    admission(namespace, "--feature-gates=CPUStartupBoost=false")
    wait_for_webhook_calls(cluster, namespace)
    forbidden = r"spec\.startupBoost: Forbidden: .* feature gate CPUStartupBoost "
    with pytest.raises(Refused, match=rf'admission webhook "vpa\.k8s\.io" denied the request: .*{forbidden}'):
        cluster.api.create(vpa("new", **FACTOR), namespace)
    with pytest.raises(Refused, match=forbidden):
        cluster.api.patch(vpa_path(namespace, "sober"), {"spec": FACTOR})
    changed = {"spec": {"updatePolicy": {"updateMode": "Initial"}, "startupBoost": {"cpu": {"factor": 2}}}}
    assert cluster.api.patch(vpa_path(namespace, "stored"), changed)["spec"]["startupBoost"]["cpu"]["factor"] == 2
    wait_for_current_advice(cluster, namespace)
    cluster.api.create(deployment("stored", sized_container()), namespace)
    made = pod_of(cluster, namespace, "stored")
    assert (cpu(made), boosted(made)) == ("300m", set())
