"""A survey of a real cluster with a real Prometheus: kinds of workloads, a server found by its Service, and RBAC."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from support.cluster.rights import get_advisor_kubeconfig
from support.docs.transcripts import BLOCK
from testbed import workloads
from testbed.cluster import Cluster
from testbed.processes import reserve_ports
from testbed.prometheus import Prometheus
from testbed.waiting import until
from trellis.base.errors import InvalidInput
from trellis.cli.main import trellis
from trellis.cli.options import open_chosen_client
from trellis.core.advice.survey.model import SurveyedWorkload, SurveyResult
from trellis.core.advice.survey.scope import SurveyObjects, WorkloadFilter
from trellis.core.advice.survey.usage import SurveySettings
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.runtime.settings.loader import WrittenValue
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.survey.cluster import list_cluster_workloads
from trellis.sources.survey.prometheus_discovery import find_prometheus
from trellis.sources.survey.resume_file import ResumeFile
from trellis.sources.survey.settings import survey_settings
from trellis.sources.survey.survey import PrometheusSurvey

Start = Callable[..., Prometheus]

HOURS = 26
SCRAPE = 60
CORES, MEMORY = 0.3, 4e8
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "size-a-cluster.md"


@pytest.fixture
def elsewhere(cluster: Cluster) -> Iterator[str]:
    """Another namespace."""
    name = cluster.create_namespace("hidden")
    yield name
    cluster.delete_namespace(name)


def openmetrics(namespace: str, pods: list[str], now: int) -> str:
    """What these pods and one that is gone have used, all alike."""
    counters, gauges = (
        ["# TYPE container_cpu_usage_seconds counter"],
        ["# TYPE container_memory_working_set_bytes gauge"],
    )
    for pod in sorted(pods):
        labels = f'{{namespace="{namespace}",pod="{pod}",container="app"}}'
        for number in range(HOURS * 3600 // SCRAPE + 1):
            at = now - HOURS * 3600 + number * SCRAPE
            counters.append(f"container_cpu_usage_seconds_total{labels} {number * SCRAPE * CORES:.3f} {at}")
            gauges.append(f"container_memory_working_set_bytes{labels} {MEMORY:.0f} {at}")
    return "\n".join([*counters, *gauges]) + "\n"


def present(kubeconfig: Path, *namespaces: str) -> SurveyObjects:
    async def main() -> SurveyObjects:
        async with open_chosen_client(kubeconfig, "", "test") as (client, home):
            return await list_cluster_workloads(client, WorkloadFilter.parse(namespaces), home)

    return asyncio.run(main())


def survey(cluster: Cluster, namespace: str, now: float, url: str = "") -> tuple[SurveyResult, str]:
    """Of one namespace, from a Prometheus at an address or else from the one that is found; and which that was."""
    choice, asked = WorkloadFilter.parse([namespace]), SurveySettings(create_built_in_recommenders()["default"])
    written = {"history-length": "1d", "prometheus-retries": "0"} | ({"prometheus-address": url} if url else {})
    kubeconfig = get_advisor_kubeconfig(cluster)
    settings = survey_settings({name: WrittenValue(value, name) for name, value in written.items()})

    async def main() -> tuple[SurveyResult, str]:
        async with open_chosen_client(kubeconfig, "", "test") as (client, home):
            here = await list_cluster_workloads(client, choice, home)
            if url:
                async with PrometheusClient(settings, environment={}) as prometheus:
                    taken = PrometheusSurvey(prometheus, settings, choice, asked, resume_file=ResumeFile(now))
                    return await taken.run(here), url
            async with find_prometheus(client, settings, now) as (prometheus, place):
                taken = PrometheusSurvey(prometheus, settings, choice, asked, resume_file=ResumeFile(now))
                return await taken.run(here), str(place)

    return asyncio.run(main())


def by_name(result: SurveyResult) -> dict[str, SurveyedWorkload]:
    return {f"{workload.kind}/{workload.name}": workload for workload in result.workloads}


def names_of(cluster: Cluster, namespace: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in cluster.api.list_items(f"/api/v1/namespaces/{namespace}/pods")]


def test_workloads_of_a_cluster_get_what_their_pods_used(cluster: Cluster, namespace: str, prometheus: Start) -> None:
    cluster.api.create(workloads.deployment("web", replicas=2), namespace)
    cluster.api.create(workloads.job("once"), namespace)
    cluster.api.create(workloads.pod("debug"), namespace)
    cluster.wait_for_ready_pods(namespace, "web", 2)
    cluster.wait_for_ready_pods(namespace, "debug")
    pods = until("all pods", lambda: listed if len(listed := names_of(cluster, namespace)) == 4 else None)
    now = int(time.time())
    server = prometheus(openmetrics(namespace, [*pods, "web-5f6b7c8d9f-bcdfg"], now))
    result, _ = survey(cluster, namespace, now, server.url)
    assert not result.is_partial, result.missing
    workload = by_name(result)
    assert set(workload) == {"Deployment/web", "Job/once", "Pod/debug"}
    [container] = workload["Deployment/web"].containers
    assert (workload["Deployment/web"].pods, container.request.cpu) == (2, 100)
    assert container.estimate.target.cpu == pytest.approx(1.15 * 1000 * CORES, rel=0.1)
    assert container.estimate.target.memory == pytest.approx(1.15 * MEMORY, rel=0.1)
    assert container.samples == pytest.approx(3 * 289, abs=3), "the pod that is gone is one of its own"
    assert result.effort.queries <= 8


def test_prometheus_is_found_by_its_service_and_asked_through_the_api_server(
    cluster: Cluster, namespace: str, elsewhere: str, prometheus: Start
) -> None:
    address = _address()
    if address is None:
        pytest.skip("this machine has no address that an API server would pass requests on to")
    cluster.api.create(workloads.deployment("web"), namespace)
    [pod] = cluster.wait_for_ready_pods(namespace, "web")
    now = int(time.time())
    [port] = reserve_ports(1)
    prometheus(openmetrics(namespace, [pod["metadata"]["name"]], now), f"--web.listen-address={address}:{port}")
    serve(cluster, elsewhere, address, port)
    result, place = until("a way to Prometheus", lambda: _tried(lambda: survey(cluster, namespace, now)))
    assert place == f"Prometheus {elsewhere}/prom"
    [workload] = result.workloads
    assert workload.containers[0].estimate.target.cpu == pytest.approx(1.15 * 1000 * CORES, rel=0.1)

    advice = until("the rights of the account", lambda: advise_with_role_of_guide(cluster, namespace))
    assert advice.exit_code == 0, advice.output
    assert f"from {place}, no CPU limits" in " ".join(advice.stdout.split())
    assert advice.stdout.startswith("1 workload, 1 container, 1 pod, 1 d of history,")


def advise_with_role_of_guide(cluster: Cluster, namespace: str) -> Result | None:
    """`trellis recommend` as an account with the ClusterRole of the guide; None until its rights are in force."""
    [role] = [
        yaml.safe_load(match[2]) for match in BLOCK.finditer(GUIDE.read_text()) if "kind: ClusterRole" in match[2]
    ]
    group, name = "rbac.authorization.k8s.io", f"advice-{namespace}"
    account = {"kind": "ServiceAccount", "name": "adviser", "namespace": namespace}
    if cluster.api.find(f"/apis/{group}/v1/clusterroles/{name}") is None:
        cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "adviser"}}, namespace)
        cluster.api.create({**role, "metadata": {"name": name}})
        reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
        binding = {"apiVersion": role["apiVersion"], "kind": "ClusterRoleBinding", "metadata": {"name": name}}
        cluster.api.create({**binding, "roleRef": reference, "subjects": [account]})
    kubeconfig = cluster.kubeconfig_for("adviser", namespace)
    options = ["-n", namespace, "--history", "1d", "--kubeconfig", str(kubeconfig), "--quiet"]
    result = CliRunner().invoke(trellis, ["recommend", *options])
    return None if "forbidden" in result.output or "may not be read" in result.output else result


def test_namespaces_that_may_not_be_read_are_named(cluster: Cluster, namespace: str, elsewhere: str) -> None:
    cluster.api.create(workloads.deployment("web"), namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "looker"}}, namespace)
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["get", "list"]}]
    named = {"apiVersion": f"{group}/v1", "metadata": {"name": "looker"}}
    cluster.api.create({**named, "kind": "Role", "rules": rules}, namespace)
    subject = {"kind": "ServiceAccount", "name": "looker", "namespace": namespace}
    reference = {"apiGroup": group, "kind": "Role", "name": "looker"}
    cluster.api.create({**named, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]}, namespace)
    account = cluster.kubeconfig_for("looker", namespace)

    def granted() -> SurveyObjects | None:
        result = present(account, namespace, elsewhere)
        return result if result.pods else None

    result = until("the rights of the account", granted)
    assert result.namespaces == (namespace,)
    hidden = {(missing.what, missing.where): missing.why for missing in result.missing}
    assert hidden["Pod", elsewhere] == "may not be read"
    assert hidden["HorizontalPodAutoscaler", ""] == "may not be read"


def serve(cluster: Cluster, namespace: str, address: str, port: int) -> None:
    """A Service with a pod behind it, as which the API server sees an address of this machine.

    It passes requests on only to addresses that are those of a pod.
    """
    made = {"metadata": {"name": "prom"}}
    cluster.api.create(workloads.pod("prom", schedulerName="nobody"), namespace)
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    cluster.api.patch(f"/api/v1/namespaces/{namespace}/pods/prom/status", {"status": status})
    labels = {"app.kubernetes.io/name": "prometheus", "app.kubernetes.io/component": "server"}
    spec = {"ports": [{"name": "http-web", "port": 9090, "targetPort": port}]}
    named = {"metadata": {"name": "prom", "labels": labels}}
    cluster.api.create({"apiVersion": "v1", "kind": "Service", **named, "spec": spec}, namespace)
    behind = {"ip": address, "targetRef": {"kind": "Pod", "namespace": namespace, "name": "prom"}}
    subsets = [{"addresses": [behind], "ports": [{"name": "http-web", "port": port}]}]
    cluster.api.create({"apiVersion": "v1", "kind": "Endpoints", **made, "subsets": subsets}, namespace)


def _tried(work: Callable[[], Any]) -> Any:
    """What something gives, or nothing while it cannot yet: an API server takes a moment to see endpoints."""
    try:
        return work()
    except InvalidInput:
        return None


def _address() -> str | None:
    """An address of this machine that is not its loopback; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            return None
        address: str = probe.getsockname()[0]
    return None if address.startswith("127.") else address
