"""An API server in memory with an installation: Deployments, pods with metrics, Leases, webhook, objects."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from support.api_server.server import ModelServer
from trellis.api.registry import KINDS
from trellis.api.schema.crds import build_crd
from trellis.base.times import format_micro_time, format_time
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

HASH = "5d4f8b7c9"
HOME = "kube-system"
_NAMES = {"recommender": "vpa-recommender", "admission": "vpa-admission-controller", "updater": "vpa-updater"}
_LEASES = {"recommender": "vpa-recommender-lease", "admission": "vpa-admission-controller", "updater": "vpa-updater"}
_WORDS = {"admission": "admission-controller"}


class InstalledCluster:
    """A cluster to be diagnosed. `pages` has metrics by pod, `forbidden` parts of paths that answer 403.

    `denied` are verbs and resources that reviews of access deny, as `list nodes`.
    """

    def __init__(self, *components: str) -> None:
        self.now = datetime.now(UTC)
        self.server = ModelServer()
        self.pages: dict[str, str] = {}
        self.logs: dict[str, str] = {}
        self.forbidden: list[str] = []
        self.denied: set[str] = set()
        self.server.before = self._answer
        self.server.objects["/version"] = {"major": "1", "minor": "36", "gitVersion": "v1.36.3"}
        pods = [
            {"name": name, "kind": "Pod", "namespaced": True, "verbs": ["list"]} for name in ("pods", "pods/resize")
        ]
        self.server.objects |= {"/api": {"versions": ["v1"]}, "/apis": {"groups": []}, "/api/v1": {"resources": pods}}
        for namespace in ("default", HOME, "shop"):
            self.server.put(f"/api/v1/namespaces/{namespace}", {"metadata": {}})
        for kind in KINDS:
            self.add_definition(f"{kind.plural}.{kind.group}", build_crd(kind))
        self.add_metrics_api()
        for component in components:
            self.add_component(component)
            self.add_lease(component)

    def add_definition(self, name: str, crd: dict[str, Any]) -> None:
        stored = [version["name"] for version in crd["spec"]["versions"] if version["storage"]]
        status = {"conditions": [{"type": "Established", "status": "True"}], "storedVersions": stored}
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        self.server.put(path, {"spec": crd["spec"], "status": status})

    def add_metrics_api(self, *, available: bool = True) -> None:
        condition = {"type": "Available", "status": "True" if available else "False", "message": "no endpoints"}
        path = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"
        self.server.put(path, {"status": {"conditions": [condition]}})
        self.server.put("/apis/metrics.k8s.io/v1beta1/nodes/node-1", {})
        self.server.put("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/web-1", {"timestamp": format_time(self.now)})

    def name_of(self, component: str) -> str:
        return _NAMES.get(component, f"trellis-{component}")

    def pod_of(self, component: str) -> str:
        return f"{self.name_of(component)}-{HASH}-x2x9z"

    def add_component(
        self,
        component: str,
        *,
        image: str = "trellis:0.1.0",
        words: Iterable[str] | None = None,
        ready: bool = True,
        statuses: Iterable[dict[str, Any]] = (),
        **template: Any,
    ) -> None:
        """A Deployment of one replica with its pod."""
        name, pod = self.name_of(component), self.pod_of(component)
        command = ["trellis", _WORDS.get(component, component), "--leader-elect"] if words is None else list(words)
        container = {
            "name": component,
            "image": image,
            "command": command,
            "ports": [{"name": "prometheus", "containerPort": 8942}],
        }
        spec = {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"spec": {"serviceAccountName": name, "containers": [container], **template}},
        }
        path = f"/apis/apps/v1/namespaces/{HOME}/deployments/{name}"
        self.server.put(path, {"spec": spec, "status": {"readyReplicas": int(ready)}})
        created = format_time(self.now - timedelta(days=1))
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        status = {"phase": "Running", "conditions": conditions, "containerStatuses": list(statuses)}
        self.server.put(
            f"/api/v1/namespaces/{HOME}/pods/{pod}",
            {"metadata": {"creationTimestamp": created, "labels": {"app": name}}, "status": status},
        )
        self.pages[pod] = self.build_page(component)

    def build_page(self, component: str, *, age: float = 20.0, failed: int = 0) -> str:
        last = self.now.timestamp() - age
        label = f'{{component="{component}"}}'
        return (
            "# HELP trellis_build_info 1, with the version of Trellis.\n"
            'trellis_build_info{version="0.1.0"} 1.0\n'
            f'trellis_component_leader{{component="{component}",name=""}} 1.0\n'
            f"trellis_component_pass_interval_seconds{label} 60.0\n"
            f"trellis_component_last_pass_timestamp_seconds{label} {last}\n"
            f"trellis_component_last_pass_duration_seconds{label} 0.31\n"
            f"trellis_component_failed_passes{label} {failed}\n"
        )

    def add_lease(self, component: str, *, age: float = 2.0, holder: str = "") -> None:
        name = _LEASES.get(component, f"trellis-{component}")
        spec = {
            "holderIdentity": holder or f"{self.pod_of(component)}_6f1e",
            "leaseDurationSeconds": 15,
            "renewTime": format_micro_time(self.now - timedelta(seconds=age)),
        }
        self.server.put(f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/{name}", {"spec": spec})

    def add_webhook(self, *, policy: str = "Ignore", endpoints: int = 2, bundle: bytes = b"") -> None:
        service = {"namespace": HOME, "name": "vpa-webhook", "port": 443}
        config = {"service": service, "caBundle": b64encode(bundle).decode()}
        hook = {"name": "vpa.k8s.io", "clientConfig": config, "failurePolicy": policy}
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/vpa-webhook-config"
        self.server.put(path, {"webhooks": [hook]})
        self.server.put(f"/api/v1/namespaces/{HOME}/services/vpa-webhook", {"spec": {"ports": [{"port": 443}]}})
        backends = [{"addresses": [f"10.0.0.{number}"], "conditions": {"ready": True}} for number in range(endpoints)]
        self.server.put(
            f"/apis/discovery.k8s.io/v1/namespaces/{HOME}/endpointslices/vpa-webhook-1", {"endpoints": backends}
        )

    def add_object(self, plural: str, name: str, *, mode: str = "", **conditions: str) -> None:
        group = "autoscaling.k8s.io/v1" if plural == "verticalpodautoscalers" else "autoscaling.x-k8s.io/v1alpha1"
        listed = [{"type": type_, "status": status, "message": f"{type_}?"} for type_, status in conditions.items()]
        created = format_time(self.now - timedelta(days=1))
        document = {
            "metadata": {"creationTimestamp": created},
            "spec": {"updatePolicy": {"updateMode": mode}} if mode else {},
            "status": {"conditions": listed},
        }
        self.server.put(f"/apis/{group}/namespaces/shop/{plural}/{name}", document)

    def _answer(self, request: Request) -> ScriptedResponse | None:
        if any(part in request.path for part in self.forbidden):
            plural = "pods/proxy" if "/proxy/" in request.path else request.path.rpartition("/")[2]
            return error_response(403, "Forbidden", f'cannot get resource "{plural}" in API group ""')
        if request.path.endswith("accessreviews"):
            return self._review(request)
        for pod, text in self.pages.items():
            if f"/pods/{pod}:" in request.path:
                return Response(200, {"content-type": "text/plain"}, text.encode())
        for pod, text in self.logs.items():
            if request.path.endswith(f"/pods/{pod}/log"):
                return Response(200, {"content-type": "text/plain"}, text.encode())
        if request.path.endswith(f"/namespaces/{HOME}/pods"):
            return self._list_pods(request)
        return None

    def _list_pods(self, request: Request) -> ScriptedResponse | None:
        """The pods that an equality selector selects."""
        selector = dict(request.query).get("labelSelector", "")
        wanted = dict(part.split("=") for part in selector.split(",") if part)
        items = [
            document
            for path, document in self.server.objects.items()
            if path.startswith(f"/api/v1/namespaces/{HOME}/pods/")
            and wanted.items() <= document["metadata"].get("labels", {}).items()
        ]
        return json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})

    def _review(self, request: Request) -> Response:
        attributes = msgspec.json.decode(request.body or b"")["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (attributes["resource"], attributes.get("subresource", ""))))
        allowed = f"{attributes['verb']} {resource}" not in self.denied
        return json_response({"status": {"allowed": allowed}}, 201)
