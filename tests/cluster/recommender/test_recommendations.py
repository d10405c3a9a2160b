"""`trellis recommender` on a real control plane: usage of the real metrics-server becomes recommendations."""

from __future__ import annotations

import http.client
import sys
import time
import urllib.request
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from support.cluster.vpas import (
    ADVICE,
    CORES,
    EVERY_SECOND,
    MEMORY,
    USAGE,
    USAGE_SECONDS,
    amounts,
    count_samples,
    get_checkpoint_status,
    get_container_recommendations,
    get_target,
    get_vpa_status,
    metric_value,
    read_conditions,
    series,
    until_advised,
    vpa,
    vpa_path,
    wait_for_further_passes,
)
from support.oracles.recommendations import ExactHistogram, SlowContainer
from testbed.access.shipped_accounts import ROOT
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller, run_controller
from testbed.kwok import annotations as ask
from testbed.prometheus import Prometheus
from testbed.waiting import until
from testbed.workloads import container, deployment
from trellis.base.quantities import Quantity
from trellis.core.recommend.settings import DefaultSettings

Start = Callable[..., Controller]

DAY = 86_400.0
MIB = 1024 * 1024
RBAC = "rbac.authorization.k8s.io"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# Every pass writes what it finds: otherwise bounds that come closer are written now and then.
ALWAYS = ("--status-change-threshold=0", "--status-narrowing-threshold=0")

# Type and labels of upstream's metrics, those that there are samples of when one pod has been sampled.
UPSTREAMS = {
    "vpa_recommender_vpa_objects_count": (
        "gauge",
        {"update_mode", "has_recommendation", "api", "matches_pods", "unsupported_config"},
    ),
    "vpa_recommender_recommendation_latency_seconds": ("histogram", set()),
    "vpa_recommender_execution_latency_seconds": ("histogram", {"step"}),
    "vpa_recommender_aggregate_container_states_count": ("gauge", set()),
    "vpa_recommender_metric_server_responses": ("counter", {"is_error", "client_name"}),
    "vpa_quality_usage_recommendation_relative_diffs": ("histogram", {"update_mode", "resource", "is_oom"}),
    "vpa_quality_usage_sample_missing_recommendation_count": ("counter", {"update_mode", "resource", "is_oom"}),
    "vpa_quality_cpu_recommendation_over_usage_diffs_cores": ("histogram", {"update_mode", "recommendation_missing"}),
    "vpa_quality_mem_recommendation_over_usage_diffs_bytes": (
        "histogram",
        {"update_mode", "recommendation_missing", "is_oom"},
    ),
    "vpa_quality_cpu_recommendation_lower_equal_usage_diffs_cores": (
        "histogram",
        {"update_mode", "recommendation_missing"},
    ),
    "vpa_quality_mem_recommendation_lower_equal_usage_diffs_bytes": (
        "histogram",
        {"update_mode", "recommendation_missing", "is_oom"},
    ),
    "vpa_quality_relative_recommendation_changes": ("histogram", {"update_mode", "resource", "vpa_size_log2"}),
    "vpa_quality_cpu_recommendations_cores": ("histogram", {"update_mode"}),
    "vpa_quality_mem_recommendations_bytes": ("histogram", {"update_mode", "is_oom"}),
}
# Those that speak of what did not happen: they are declared and have no samples.
SILENT = {
    "vpa_recommender_prometheus_client_api_requests_count": "counter",
    "vpa_recommender_prometheus_client_api_requests_duration_seconds": "histogram",
    "vpa_resources_get_resources_count": "counter",
}
STEPS = {
    *("LoadVPAs", "LoadPods", "LoadMetrics", "DeleteRemovedPods", "UpdateVPAs", "MaintainCheckpoints"),
    *("GarbageCollect", "total"),
}


def figures(cores: float, memory: float, checkpoint: Json, containers: int) -> dict[str, tuple[int, int]]:
    """What the oracle makes of steady usage: lower bound, target and upper bound in millicores and bytes.

    How long the usage has been steady is what the checkpoint says.
    """
    cpu, peaks = ExactHistogram(0.01, 176, DAY), ExactHistogram(1e7, 176, DAY)
    first, last = (
        datetime.fromisoformat(checkpoint[field]).timestamp() for field in ("firstSampleStart", "lastSampleStart")
    )
    cpu.add(last, cores, 0.1)
    peaks.add(last, memory, 1.0)
    known = SlowContainer(cpu, peaks, first, last, checkpoint["totalSamplesCount"])
    result = [known.estimate(resource, DefaultSettings(), containers) for resource in ("cpu", "memory")]
    assert result[0]
    assert result[1]
    return dict(zip(("lowerBound", "target", "upperBound"), zip(*result, strict=True), strict=True))


def printed(cluster: Cluster, path: str) -> dict[str, object]:
    """What `kubectl get -o wide` shows of an object."""
    table = cluster.api.send("GET", path, accept=TABLE)
    [row] = table["rows"]
    return dict(
        zip((column_definition["name"] for column_definition in table["columnDefinitions"]), row["cells"], strict=True)
    )


def healthy(controller: Controller) -> bool:
    try:
        with urllib.request.urlopen(f"{controller.url}/health-check", timeout=30) as response:  # noqa: S310 - our own server
            return bool(response.status == http.client.OK and response.read() == b"OK")
    except OSError:
        return False


@pytest.mark.req("CR-28")
def test_recommendations_for_scripted_usage_equal_those_of_the_oracle(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    usage = USAGE | {f"{ask.USAGE_CPU}.proxy": "3m", f"{ask.USAGE_MEMORY}.proxy": "16Mi"}
    first = [{"name": "setup", "image": "example/setup:1.0"}]
    work = deployment("web", container("app"), container("proxy"), annotations=usage, initContainers=first)
    cluster.api.create(work, namespace)
    cluster.api.create(vpa("web"), namespace)
    started = recommender(namespace, EVERY_SECOND, *ALWAYS)
    # The second sample of a container is the first that a recommendation can be compared with.
    until("two samples of both", lambda: count_samples(cluster, namespace, "web-proxy") >= 2, USAGE_SECONDS)
    used = {"app": (CORES, MEMORY), "proxy": (0.003, 16 * MIB)}

    def as_the_oracle_says() -> bool:
        """Status and checkpoint are written one after the other, so that one of them may be of the pass before."""
        containers = get_container_recommendations(cluster, namespace, "web")
        return containers.keys() == used.keys() and all(
            {what: amounts(containers[name][what]) for what in ("lowerBound", "target", "upperBound")}
            == figures(cores, memory, get_checkpoint_status(cluster, namespace, f"web-{name}"), containers=2)
            for name, (cores, memory) in used.items()
        )

    until("recommendations to be the oracle's", as_the_oracle_says)
    recommended = get_container_recommendations(cluster, namespace, "web")
    assert amounts(recommended["app"]["target"]) == amounts(recommended["app"]["uncappedTarget"]) == ADVICE
    # The least for a pod, 25m and 250Mi, is shared by its two containers; the one that ran first is none of them.
    assert recommended["proxy"]["target"] == {"cpu": "12m", "memory": "125Mi"}
    check_status(cluster, namespace)
    wait_for_further_passes(started)
    check_metrics(started)
    until("it to be healthy", lambda: healthy(started))


def check_status(cluster: Cluster, namespace: str) -> None:
    result = cluster.api.get(vpa_path(namespace, "web"))
    status = result["status"]
    assert status["observedGeneration"] == result["metadata"]["generation"] == 1
    # Little is known after a minute, which upstream has a name for and never says.
    assert read_conditions(status) == {"LowConfidence": "True", "RecommendationProvided": "True"}
    assert {condition["observedGeneration"] for condition in status["conditions"]} == {1}
    shown = printed(cluster, vpa_path(namespace, "web"))
    assert (shown["CPU"], shown["Mem"], shown["Provided"]) == (f"{ADVICE[0]}m", str(ADVICE[1]), "True")


def check_metrics(controller: Controller) -> None:
    text = controller.read_metrics()
    types = dict(line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE"))
    for name, (kind, labels) in UPSTREAMS.items():
        assert types[name] == kind
        result = series(controller, f"{name}_count" if kind == "histogram" else name)
        assert {frozenset(one) for one, _ in result} == {frozenset(labels)}, name
    assert {name: types[name] for name in SILENT} == SILENT
    steps = {
        result["step"]: number
        for result, number in series(controller, "vpa_recommender_execution_latency_seconds_count")
    }
    assert steps.keys() == STEPS
    # One of them is perhaps under way.
    assert 0 < max(steps.values()) <= steps["total"] + 1
    served = {"update_mode": "Recreate", "has_recommendation": "true", "api": "v1", "matches_pods": "true"}
    assert metric_value(controller, "vpa_recommender_vpa_objects_count") == 1
    assert metric_value(controller, "vpa_recommender_vpa_objects_count", unsupported_config="false", **served) == 1
    assert metric_value(controller, "vpa_recommender_aggregate_container_states_count") == 2
    assert metric_value(controller, "vpa_recommender_recommendation_latency_seconds_count") == 1
    answers = {"client_name": "default-metrics-client", "is_error": "false"}
    assert metric_value(controller, "vpa_recommender_metric_server_responses", **answers) > 0


@pytest.mark.req("CR-02", "CR-21")
def test_policies_bound_the_recommendation_and_targets_are_not_changed(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    bounds = {"containerName": "app", "minAllowed": {"memory": "1Gi"}, "maxAllowed": {"cpu": "30m"}}
    without = {"containerName": "proxy", "mode": "Off"}
    specs: dict[str, Json] = {
        "plain": {},
        "empty": {"recommenders": []},
        "named": {"recommenders": [{"name": "default"}]},
        "watched": {"updatePolicy": {"updateMode": "Off"}},
        "capped": {"resourcePolicy": {"containerPolicies": [bounds]}},
        "partly": {"resourcePolicy": {"containerPolicies": [without]}},
    }
    for name, spec in specs.items():
        containers = [container("app"), container("proxy")] if name == "partly" else [container("app")]
        cluster.api.create(deployment(name, *containers, replicas=1, annotations=USAGE), namespace)
        cluster.api.create(vpa(name, **spec), namespace)
    before = {name: workload(cluster, namespace, name) for name in specs}
    recommender(namespace, EVERY_SECOND)
    for name in specs.keys() - {"capped"}:
        until_advised(cluster, namespace, name)
    until("the capped one", lambda: (get_target(cluster, namespace, "capped") or (0, 0))[0] == 30)
    recommended = {name: get_container_recommendations(cluster, namespace, name) for name in specs}
    assert {name for name, result in recommended.items() if result.keys() == {"app"}} == specs.keys()
    capped = recommended.pop("capped")["app"]
    assert {amounts(result["app"]["target"]) for result in recommended.values()} == {ADVICE}
    assert capped["target"] == {"cpu": "30m", "memory": "1Gi"}
    assert amounts(capped["uncappedTarget"]) == ADVICE
    assert Quantity.parse(capped["upperBound"]["cpu"]) <= Quantity.parse("30m")
    assert Quantity.parse(capped["lowerBound"]["memory"]) >= Quantity.parse("1Gi")
    assert {name: workload(cluster, namespace, name) for name in specs} == before


def workload(cluster: Cluster, namespace: str, name: str) -> tuple[Json, int]:
    """What of a Deployment would tell that somebody has written it: its spec and its generation."""
    result = cluster.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    assert not any("trellis" in entry["manager"] for entry in result["metadata"]["managedFields"])
    return result["spec"], result["metadata"]["generation"]


def test_a_native_sidecar_gets_a_recommendation_and_an_init_container_does_not(
    cluster: Cluster, namespace: str, recommender: Start, prometheus: Callable[..., Prometheus]
) -> None:
    """By a Prometheus, because the simulated kubelet reports no usage of either."""
    before = [
        {"name": "setup", "image": "example/setup:1.0"},
        container("mesh", restartPolicy="Always"),
    ]
    cluster.api.create(deployment("web", container("app"), initContainers=before), namespace)
    cluster.api.create(vpa("web"), namespace)
    [pod] = cluster.wait_for_ready_pods(namespace, "web")
    server = prometheus(steady(namespace, pod["metadata"]["name"], ("app", "mesh", "setup")))
    flags = ("--prometheus-live", f"--prometheus-address={server.url}")
    started = recommender(namespace, EVERY_SECOND, *flags)
    until("a target of the sidecar", lambda: get_target(cluster, namespace, "web", "mesh"))
    wait_for_further_passes(started)
    recommended = get_container_recommendations(cluster, namespace, "web")
    assert {name: amounts(result["target"]) for name, result in recommended.items()} == {"app": ADVICE, "mesh": ADVICE}
    assert metric_value(started, "trellis_recommender_samples_total", result="UnknownContainer") > 0
    assert metric_value(started, "vpa_recommender_aggregate_container_states_count") == 2
    assert metric_value(started, "vpa_recommender_prometheus_client_api_requests_count", code="200") > 0


def steady(namespace: str, pod: str, containers: tuple[str, ...]) -> str:
    """OpenMetrics: a fortieth of a core and 300 MiB of each container, from a while ago until after the test."""
    now = int(time.time())
    lines: dict[str, list[str]] = {"container_cpu_usage_seconds": [], "container_memory_working_set_bytes": []}
    counters, gauges = lines.values()
    for name in containers:
        labels = f'{{job="kubernetes-cadvisor",namespace="{namespace}",pod_name="{pod}",name="{name}"}}'
        for at in range(now - 600, now + 600, 15):
            counters.append(f"container_cpu_usage_seconds_total{labels} {CORES * (at - now + 3600)} {at}")
            gauges.append(f"container_memory_working_set_bytes{labels} {MEMORY} {at}")
    kinds = zip(lines, ("counter", "gauge"), strict=True)
    text = [line for family, kind in kinds for line in (f"# TYPE {family} {kind}", *lines[family])]
    return "\n".join(text) + "\n"


def test_without_an_adapter_of_external_metrics_the_process_is_healthy_and_says_so(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    cluster.api.create(deployment("web"), namespace)
    cluster.api.create(vpa("web"), namespace)
    metrics = ("--external-metrics-cpu-metric=cpu-usage", "--external-metrics-memory-metric=memory-usage")
    controller = recommender(namespace, EVERY_SECOND, "--use-external-metrics", *metrics)
    until("two answers that are none", lambda: answers(controller, is_error=True) >= 2)
    until("it to be healthy", lambda: healthy(controller))
    assert answers(controller, is_error=False) == 0


def test_without_usage_the_process_is_healthy_and_recommendations_stay(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """Usage is taken away by taking the right to read it away; everything else works."""
    cluster.api.create(deployment("web", annotations=USAGE), namespace)
    cluster.api.create(vpa("web"), namespace)
    kubeconfig = account_without_metrics(cluster, namespace)
    command = [str(Path(sys.executable).with_name("trellis")), "recommender"]
    flags = (f"--vpa-object-namespace={namespace}", EVERY_SECOND)
    with run_controller(command, kubeconfig, tmp_path / "recommender.log", flags) as controller:
        until("two answers that are none", lambda: answers(controller, is_error=True) >= 2)
        until("it to be healthy", lambda: healthy(controller))
        lacking = {"RecommendationProvided": "False"}
        until("a word of it", lambda: read_conditions(get_vpa_status(cluster, namespace, "web")) == lacking)

        cluster.api.create(binding(namespace, "metrics"), namespace)
        until_advised(cluster, namespace, "web")
        assert answers(controller, is_error=False) > 0

        cluster.api.delete(f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings/metrics")
        failed = answers(controller, is_error=True)
        until("three answers that are none", lambda: answers(controller, is_error=True) >= failed + 3)
        until("it to be healthy", lambda: healthy(controller))
        assert get_target(cluster, namespace, "web") == ADVICE

        cluster.api.create(binding(namespace, "metrics"), namespace)
        known = count_samples(cluster, namespace, "web-app")
        until("another sample", lambda: count_samples(cluster, namespace, "web-app") > known)
        assert get_target(cluster, namespace, "web") == ADVICE


def answers(controller: Controller, *, is_error: bool) -> float:
    return metric_value(controller, "vpa_recommender_metric_server_responses", is_error=str(is_error).lower())


def account_without_metrics(cluster: Cluster, namespace: str) -> Path:
    """An account with the rights that are shipped, in one namespace, but for those to read usage; a role has these."""
    documents = yaml.safe_load_all((ROOT / "deploy" / "recommender.yaml").read_text())
    rules = next(document["rules"] for document in documents if document and document["kind"] == "ClusterRole")
    version = {"apiVersion": f"{RBAC}/v1"}
    for name, expected in (("metrics", True), ("others", False)):
        own = [rule for rule in rules if ("metrics.k8s.io" in rule["apiGroups"]) == expected]
        cluster.api.create({**version, "kind": "Role", "metadata": {"name": name}, "rules": own}, namespace)
    cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "recommender"}}, namespace)
    cluster.api.create(binding(namespace, "others"), namespace)
    return cluster.kubeconfig_for("recommender", namespace)


def binding(namespace: str, role: str) -> Json:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "recommender", "namespace": namespace}],
    }
