"""All three components work under accounts that may do what upstream's may, and say what they go on without."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

from support.cluster.admission import LEASE, forget, wait_for_current_advice, wait_for_webhook_calls
from support.cluster.updaters import create_vpa_with_advice, events, requests, running_pods, wait_for_two_passes
from support.cluster.vpas import ADVICE, EVERY_SECOND, USAGE, USAGE_SECONDS, get_target, series, until_value, vpa
from testbed.access.certificates import Authority
from testbed.access.rights import is_allowed
from testbed.cluster import Cluster
from testbed.components import ADDRESS
from testbed.controllers import Controller, run_controller
from testbed.processes import reserve_ports
from testbed.programs.cache import hold_lock
from testbed.waiting import until
from testbed.workloads import container, deployment

Start: TypeAlias = Callable[..., Controller]

READ = "get list watch"
FREEZE = "trellis.x-k8s.io/freeze"
NAMESPACE = "kube-system"
RBAC = "rbac.authorization.k8s.io"
UNREADABLE = "trellis_unseen_resources"
# What every account may do, and nobody without a role.
LEASES = {"verb": "create", "group": "coordination.k8s.io", "resource": "leases", "namespace": NAMESPACE}
# What upstream's manifests grant each account over all of its roles, as `group/resource`: verbs. They never grant
# `patch` on Leases, and know nothing of Hvpas, HPAs and freezes.
EVERYBODY = {
    "autoscaling.k8s.io/verticalpodautoscalers": READ,
    "/pods /nodes /limitranges /replicationcontrollers": READ,
    "apps/daemonsets apps/deployments apps/replicasets apps/statefulsets batch/jobs batch/cronjobs": READ,
    "*/*/scale": "get watch",
}
ACTING = {"/events events.k8s.io/events": f"{READ} create patch update"}
GRANTED = {
    "recommender": EVERYBODY
    | ACTING
    | {
        "metrics.k8s.io/pods": "get list",
        "autoscaling.k8s.io/verticalpodautoscalers/status": "get patch",
        "autoscaling.k8s.io/verticalpodautoscalercheckpoints": f"{READ} create patch delete",
        "coordination.k8s.io/leases": "create get watch update",
    },
    "updater": EVERYBODY
    | ACTING
    | {
        "/pods/eviction": "create",
        "/pods /pods/resize": "patch",
        "coordination.k8s.io/leases": f"{READ} create update",
    },
    "admission-controller": EVERYBODY
    | {
        "/configmaps": READ,
        "admissionregistration.k8s.io/mutatingwebhookconfigurations": "create delete get list patch",
        "coordination.k8s.io/leases": f"{READ} create update",
    },
}


def grant(cluster: Cluster, account: str, role: str, granted: dict[str, str]) -> None:
    """Let an account do something, everywhere."""
    rules = []
    for resources, verbs in granted.items():
        for plural in resources.split():
            group, _, resource = plural.partition("/")
            rules.append({"apiGroups": [group], "resources": [resource], "verbs": verbs.split()})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    about = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": role}}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    cluster.api.apply(about | {"kind": "ClusterRole", "rules": rules})
    cluster.api.apply(about | {"kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]})


def revoke(cluster: Cluster, role: str) -> None:
    for kind in ("clusterrolebindings", "clusterroles"):
        path = f"/apis/{RBAC}/v1/{kind}/{role}"
        if cluster.api.find(path):
            cluster.api.delete(path)


def account(component: str) -> str:
    return f"as-upstreams-{component}"


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start a component for the VPAs of one namespace, with upstream's rights. Its log is shown if the test fails."""
    started: list[Controller] = []
    with hold_lock(cluster.directory / "admission.lock"), ExitStack() as controllers:
        controllers.callback(forget, cluster)

        def start_one(component: str, namespace: str, *flags: str) -> Controller:
            name = account(component)
            metadata = {"name": name, "namespace": NAMESPACE}
            cluster.api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
            grant(cluster, name, name, GRANTED[component])
            command = [str(Path(sys.executable).with_name("trellis")), component]
            own = [f"--vpa-object-namespace={namespace}", "-v=12", *flags]
            log = tmp_path / f"{component}.log"
            kubeconfig = cluster.kubeconfig_for(name, NAMESPACE)
            until(
                "the right to Leases",
                lambda: is_allowed(cluster.api, f"system:serviceaccount:{NAMESPACE}:{name}", LEASES),
            )
            started.append(controllers.enter_context(run_controller(command, kubeconfig, log, own)))
            return started[-1]

        yield start_one
    for controller in started:
        sys.stdout.write(f"{controller.process.log.name}:\n{controller.read_logs()}\n")
        assert "Traceback" not in controller.read_logs()


def webhook_flags(directory: Path) -> list[str]:
    """Certificates are files, as with upstream: its account may not touch Secrets."""
    [port] = reserve_ports(1)
    authority = Authority.new("webhook")
    trusted, _ = authority.pair.save(directory, "authority")
    certificate, key = authority.issue_server("webhook", ADDRESS).save(directory, "webhook")
    files = [f"--client-ca-file={trusted}", f"--tls-cert-file={certificate}", f"--tls-private-key={key}"]
    where = ["--register-by-url", f"--webhook-address=https://{ADDRESS}", f"--webhook-port={port}", f"--port={port}"]
    return [*files, *where, "--webhook-timeout-seconds=30"]


def unreadable(controller: Controller) -> dict[str, float]:
    return {labels["resource"]: number for labels, number in series(controller, UNREADABLE)}


def until_ready(controller: Controller) -> str:
    """What the probe says in full, once it is content."""

    def ready() -> str | None:
        status, text = controller.get("/readyz?verbose")
        return text if status == 200 else None

    return until("it to be ready", ready)


def test_the_recommender_writes_recommendations_with_upstreams_rights(
    cluster: Cluster, namespace: str, start: Start
) -> None:
    cluster.api.create(deployment("web", container(), annotations=USAGE), namespace)
    cluster.api.create(vpa("web"), namespace)
    lease = ["--leader-elect", f"--leader-elect-resource-namespace={namespace}"]
    controller = start("recommender", namespace, EVERY_SECOND, *lease)
    assert "[!]hvpas.autoscaling.x-k8s.io not watched: totals are not published in Hvpas\n" in until_ready(controller)
    until("the recommendation", lambda: get_target(cluster, namespace, "web") == ADVICE, USAGE_SECONDS)
    assert unreadable(controller) == {"hvpas.autoscaling.x-k8s.io": 1.0}
    assert controller.read_logs().count("RBAC does not allow reading an optional kind; continuing without it") == 1
    assert "{apiGroups: [autoscaling.x-k8s.io], resources: [hvpas], verbs: [list, watch]}" in controller.read_logs()
    assert "lost the Lease" not in controller.read_logs()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/vpa-recommender-lease"
    renewed = cluster.api.get(path)["spec"]["renewTime"]
    until("the lease to be renewed", lambda: cluster.api.get(path)["spec"]["renewTime"] > renewed)


def test_pods_are_evicted_resized_and_sized_with_upstreams_rights(
    cluster: Cluster, namespace: str, start: Start, tmp_path: Path
) -> None:
    webhook = start("admission-controller", namespace, *webhook_flags(tmp_path))
    assert "[!]hvpas.autoscaling.x-k8s.io not watched: pods are not sized by Hvpas\n" in until_ready(webhook)
    wait_for_webhook_calls(cluster, namespace)
    before = running_pods(cluster, namespace, "web")
    resized = running_pods(cluster, namespace, "kept")
    create_vpa_with_advice(cluster, namespace, "web", "Recreate")
    create_vpa_with_advice(cluster, namespace, "kept", "InPlaceOrRecreate")
    wait_for_current_advice(cluster, namespace)
    # Made before; from now on the Lease must be renewed, or nothing is evicted.
    made = until("the Lease", lambda: cluster.api.find(LEASE))["spec"]["renewTime"]
    until("the Lease to be renewed", lambda: cluster.api.get(LEASE)["spec"]["renewTime"] > made)
    updater = start("updater", namespace, "--updater-interval=500ms")
    until("all pods to be sized", lambda: requests(cluster, namespace, "web") == ["250m"] * 2)
    until("all pods to be resized", lambda: requests(cluster, namespace, "kept") == ["250m"] * 2)
    assert not before.keys() & {pod["metadata"]["uid"] for pod in cluster.list_pods(namespace, "web")}
    assert resized.keys() == {pod["metadata"]["uid"] for pod in cluster.list_pods(namespace, "kept")}
    until_value(updater, "vpa_updater_evicted_pods_total", 2, vpa_name="web")
    until("the Events", lambda: len(events(cluster, namespace, "EvictedByVPA")) == 2)
    assert unreadable(updater) == dict.fromkeys(
        (
            "configmaps",
            "horizontalpodautoscalers.autoscaling",
            "hvpas.autoscaling.x-k8s.io",
            "namespaces",
        ),
        1.0,
    )
    assert unreadable(webhook) == {"hvpas.autoscaling.x-k8s.io": 1.0}
    result = until_ready(updater)
    assert "[!]configmaps not watched: the freeze ConfigMap kube-system/trellis-freeze has no effect\n" in result
    assert "[!]namespaces not watched: the freeze annotation of namespaces has no effect\n" in result
    assert updater.read_logs().count("RBAC does not allow reading an optional kind; continuing without it") == 4


def test_a_rule_that_is_granted_later_takes_effect_without_a_restart(
    cluster: Cluster, namespace: str, start: Start
) -> None:
    controller = start("updater", namespace, "--updater-interval=1s", "--use-admission-controller-status=false")
    until_ready(controller)
    until("namespaces to be missed", lambda: unreadable(controller).get("namespaces") == 1.0)
    cluster.api.annotate(f"/api/v1/namespaces/{namespace}", {FREEZE: "alice"})
    granted = f"{account('updater')}-sees-namespaces"
    grant(cluster, account("updater"), granted, {"/namespaces": READ})
    try:
        until("namespaces to be seen", lambda: unreadable(controller)["namespaces"] == 0.0)
        message = "an optional kind is no longer forbidden; watching it"
        until("a word of it", lambda: message in controller.read_logs())
        running_pods(cluster, namespace, "web")
        create_vpa_with_advice(cluster, namespace, "web", "Recreate")
        until_value(controller, "trellis_updater_pods", 2, reason="Frozen")
        wait_for_two_passes(controller)
        assert requests(cluster, namespace, "web") == ["100m"] * 2
        assert unreadable(controller)["configmaps"] == 1.0
    finally:
        revoke(cluster, granted)
