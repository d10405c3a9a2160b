"""The webhook on a real control plane: tests advise, create pods, and read their sizes."""

from __future__ import annotations

import http.client
import json
import ssl
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support.cluster.vpas import vpa, vpa_path
from testbed.access import shipped_accounts
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.components import ADDRESS
from testbed.controllers import Controller, run_controller
from testbed.errors import Refused
from testbed.processes import reserve_ports
from testbed.programs.cache import hold_lock
from testbed.waiting import until
from testbed.workloads import container, deployment, pod

Start = Callable[..., Controller]

CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vpa-webhook-config"
SECRET = "/api/v1/namespaces/kube-system/secrets/trellis-admission-certificates"  # noqa: S105 - a path
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vpa-admission-controller"

OBSERVED, UPDATES, SIZED, BOOST = "vpaObservedContainers", "vpaUpdates", "trellis.x-k8s.io/sized", "vpaCpuStartupBoost/"

_SENTINEL = "sentinel"
_numbers = count(101)


@contextmanager
def admission_controllers(cluster: Cluster, directory: Path, *, restarts: bool = False) -> Iterator[Start]:
    """Start `trellis admission-controller` for one namespace, under the account and the roles that Trellis ships.

    It is registered by its URL; `port` is for a second one that takes its place. Those who use it take turns: a cluster
    has one webhook configuration. An API server that `restarts` forbids everything until it has read its roles.
    """
    started: list[Controller] = []
    with hold_lock(cluster.directory / "admission.lock"), ExitStack() as controllers:
        controllers.callback(forget, cluster)

        def start(namespace: str, *flags: str, port: int = 0) -> Controller:
            log = directory / f"admission-{len(started)}.log"
            port = port or reserve_ports(1)[0]
            where = ["--register-by-url", f"--webhook-address=https://{ADDRESS}", f"--webhook-port={port}"]
            # A pod that had to wait for a busy machine would come as it is.
            patient = "--webhook-timeout-seconds=30"
            own = [f"--vpa-object-namespace={namespace}", f"--port={port}", *where, patient, "-v=5", *flags]
            command = [str(Path(sys.executable).with_name("trellis")), "admission-controller"]
            kubeconfig = shipped_accounts.create_account(cluster, "admission")
            started.append(controllers.enter_context(run_controller(command, kubeconfig, log, own)))
            return started[-1]

        yield start
    for controller in started:
        sys.stdout.write(f"{controller.process.log.name}:\n{controller.read_logs()}\n")
        assert restarts or "forbidden" not in controller.read_logs().lower(), "a right is missing: see its log"
        assert "a review failed" not in controller.read_logs()


def forget(cluster: Cluster) -> None:
    """Delete what a webhook leaves behind."""
    for path in (CONFIGURATION, SECRET, LEASE):
        if cluster.api.find(path):
            cluster.api.delete(path)


def create_vpa(cluster: Cluster, namespace: str, name: str, advice: Mapping[str, Json], **spec: Any) -> Json:
    """A VPA on the Deployment of its name, or on the `targetRef` in its spec, with a recommendation by container."""
    manifest = vpa(name)
    created = cluster.api.create(manifest | {"spec": manifest["spec"] | spec}, namespace)
    advise(cluster, namespace, name, advice)
    return created


def advise(cluster: Cluster, namespace: str, name: str, advice: Mapping[str, Json]) -> None:
    """What a recommender would write."""
    result = [{"containerName": container, "target": target} for container, target in advice.items()]
    status = {"recommendation": {"containerRecommendations": result}}
    cluster.api.patch(f"{vpa_path(namespace, name)}/status", {"status": status})


def wait_for_webhook_calls(cluster: Cluster, namespace: str) -> None:
    """Return when the API server asks the webhook: it hears of a new configuration a moment later.

    A VPA without a policy is given one by nobody else.
    """
    path = f"{vpa_path(namespace, '').rstrip('/')}?dryRun=All"
    until(
        "the API server to ask us",
        lambda: "updatePolicy" in cluster.api.send("POST", path, vpa("probe"))["spec"],
    )


def wait_for_current_advice(cluster: Cluster, namespace: str) -> None:
    """Return when the webhook goes by everything that any VPA says at this moment.

    What it watches comes in order: once it goes by the last change of all, it knows of those before.
    """
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{_SENTINEL}"
    if not cluster.api.find(path):
        cluster.api.create(deployment(_SENTINEL, replicas=0), namespace)
        # Limits stay, or the namespace's LimitRanges might have a say.
        policy = {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}
        cluster.api.create(vpa(_SENTINEL, resourcePolicy=policy), namespace)
    sentinel_cpu = f"{next(_numbers)}m"
    advise(cluster, namespace, _SENTINEL, {"app": {"cpu": sentinel_cpu}})
    made = owned(pod("probe"), cluster.api.get(path), _SENTINEL)
    until("the last recommendation", lambda: cpu(dry_run(cluster, namespace, made)) == sentinel_cpu)


def owned(made: Json, owner: Json, app: str = "") -> Json:
    """A pod as its controller makes it."""
    metadata = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    labels = {"app": app or metadata["name"]}
    return made | {"metadata": made["metadata"] | {"labels": labels, "ownerReferences": [reference]}}


def dry_run(cluster: Cluster, namespace: str, made: Json) -> Json:
    """What the API server would store."""
    return cluster.api.send("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", made)


def is_refused(cluster: Cluster, namespace: str, made: Json) -> bool:
    """Whether the API server would not store it."""
    try:
        dry_run(cluster, namespace, made)
    except Refused:
        return True
    return False


def resources(made: Json) -> dict[str, Json]:
    """By container, native sidecars included."""
    spec = made["spec"]
    return {
        listed["name"]: listed.get("resources", {}) for listed in (*spec["containers"], *spec.get("initContainers", ()))
    }


def cpu(made: Json, name: str = "app") -> str | None:
    """The CPU request of a container."""
    cpu: str | None = resources(made)[name].get("requests", {}).get("cpu")
    return cpu


def boosted(made: Json) -> set[str]:
    """The containers that are marked as boosted."""
    notes = made["metadata"].get("annotations", {})
    return {key.removeprefix(BOOST) for key in notes if key.startswith(BOOST)}


def sized_container(name: str = "app", request: str = "500m", limit: str | None = None, memory: str = "128Mi") -> Json:
    """A container with a CPU request, and a limit if one is given."""
    limits = {"limits": {"cpu": limit}} if limit else {}
    return container(name, resources={"requests": {"cpu": request, "memory": memory}, **limits})


def reviewer(cluster: Cluster, port: int = 0) -> Callable[[bytes], Json]:
    """Ask the webhook as the API server does: where its configuration says, or at a port, trusting its bundle alone."""
    client = cluster.api.get(CONFIGURATION)["webhooks"][0]["clientConfig"]
    trusted = ssl.create_default_context(cadata=b64decode(client["caBundle"]).decode())
    address = urlsplit(client["url"])

    def review(body: bytes) -> Json:
        connection = http.client.HTTPSConnection(
            address.hostname or "", port or address.port, context=trusted, timeout=30.0
        )
        with closing(connection):
            connection.request("POST", "/?timeout=5s", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        assert answer.status == http.client.OK, text
        response: Json = json.loads(text)["response"]
        return response

    return review
