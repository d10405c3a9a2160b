"""Running pods for tests of the updater's decisions, and a model of the API server and the kubelets that hold them.

`running` makes a pod as JSON, `workload` a view of some, and `decided` asks for a plan. `World` lives: it evicts and
resizes by the patches of a plan, keeps disruption budgets, makes successors through admission, and its kubelets take
resizes on, defer them, or never can. Everything goes through JSON, as on the wire.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from support.builders.manifests import hvpa as hvpa_document
from support.builders.manifests import vpa as vpa_document
from support.json_patch import PatchRefused, apply_patch
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.pods import Pod
from trellis.core.admission.pod_patches import admit_pod
from trellis.core.boost.boosted_size import BoostSettings
from trellis.core.cluster.write_results import WriteResult
from trellis.core.recommend.amounts import parse_amounts
from trellis.core.recommend.capping import NamespaceLimits, RecommendedResources
from trellis.core.resize.actions import Action, ControllerKey, EvictPod, ResizePod
from trellis.core.resize.plan import UpdatePlan, plan_updates
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import ActionResult, WorkloadAttempts, record_result
from trellis.core.resize.view import PodView, WorkloadView
from trellis.core.sizing.governors import Governor, compile_hvpa_governor, compile_vpa_governor

NOW = 1_800_000_000.0
DAY = 86_400.0
GROUP = ControllerKey("ReplicaSet", "web-1")
Document = dict[str, Any]
Targets = Mapping[str, Mapping[str, str]]


def time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def container(name: str = "app", cpu: str | None = "500m", memory: str | None = "1Gi", **more: Any) -> Document:
    """A container; `limits` and `restarts` (the resources whose resize restarts it) are for the asking."""
    limits, restarts = dict(more.pop("limits", {})), more.pop("restarts", ())
    requests = {key: text for key, text in (("cpu", cpu), ("memory", memory)) if text is not None}
    policy = [{"resourceName": restart, "restartPolicy": "RestartContainer"} for restart in restarts]
    resources = {"requests": requests, **({"limits": limits} if limits else {})}
    return {"name": name, "resources": resources, **({"resizePolicy": policy} if policy else {}), **more}


def running(name: str = "web-1-a", *containers: Document, **more: Any) -> Document:
    """A pod that has run for two days, as it should; what is in force is what its spec says."""
    listed = list(containers) or [container()]
    age, owner = more.pop("age", 2 * DAY), more.pop("owner", ("ReplicaSet", "web-1"))
    born = time(NOW - age)
    metadata: Document = {"name": name, "namespace": "shop", "uid": more.pop("uid", f"uid-{name}")}
    metadata |= {"creationTimestamp": born, "annotations": more.pop("annotations", {})}
    if owner is not None:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "uid": "o", "controller": True}]
    if more.pop("going", False):
        metadata["deletionTimestamp"] = time(NOW)
    ready_for = more.pop("ready_for", age)
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": time(NOW - ready_for)}]
    status: Document = {
        "phase": more.pop("phase", "Running"),
        "startTime": born,
        "conditions": more.pop("conditions", []) + (conditions if more.pop("ready", True) else []),
        "containerStatuses": [
            {"name": listed_container["name"], "resources": copy.deepcopy(listed_container["resources"])}
            for listed_container in listed
        ],
    }
    return {"metadata": metadata, "spec": {"nodeName": "n1", "containers": listed, **more}, "status": status}


def in_force(pod: Document, **amounts: str) -> Document:
    """The same pod, whose first container has other requests than its spec says."""
    changed = copy.deepcopy(pod)
    changed["status"]["containerStatuses"][0]["resources"]["requests"] |= amounts
    return changed


def resizing(pod: Document, type_: str, reason: str = "", since: float = 0.0, **amounts: str) -> Document:
    """The same pod in the middle of a resize."""
    changed = in_force(pod, **amounts)
    changed["status"]["conditions"].append(
        {"type": type_, "status": "True", "reason": reason, "lastTransitionTime": time(NOW - since)}
    )
    return changed


def killed(pod: Document, ran: float, name: str = "app", *, ago: float = 60.0) -> Document:
    """The same pod, a container of which ran out of memory after so many seconds."""
    changed = copy.deepcopy(pod)
    ended = {"reason": "OOMKilled", "startedAt": time(NOW - ago - ran), "finishedAt": time(NOW - ago)}
    for status in changed["status"]["containerStatuses"]:
        if status["name"] == name:
            status["lastState"] = {"terminated": ended}
    return changed


def advice(targets: Targets, spread: float = 0.2) -> tuple[RecommendedResources, ...]:
    """Targets with bounds as far around them."""
    result = []
    for name, texts in targets.items():
        target = parse_amounts(texts)
        lower, upper = (
            {key: int(amount * share) for key, amount in target.items()} for share in (1 - spread, 1 + spread)
        )
        result.append(RecommendedResources(name, target, lower, upper))
    return tuple(result)


def governor(mode: str = "Recreate", targets: Targets | None = None, spread: float = 0.2, **spec: Any) -> Governor:
    policy = {"updateMode": mode, **spec.pop("policy", {})}
    compiled = compile_vpa_governor(msgspec.convert(vpa_document(updatePolicy=policy, **spec), VerticalPodAutoscaler))
    assert compiled is not None
    recommended = advice({"app": {"cpu": "1", "memory": "1Gi"}} if targets is None else targets, spread)
    return msgspec.structs.replace(compiled, advice=recommended if compiled.applies else ())


def hvpa_pods(*buckets: Any, targets: Targets | None = None, **spec: Any) -> Governor:
    """The governor of an Hvpa's pods, whose size it has decided."""
    compiled = compile_hvpa_governor(msgspec.convert(hvpa_document(*buckets, **spec), Hvpa))
    recommended = advice({"app": {"cpu": "1", "memory": "1Gi"}} if targets is None else targets)
    return msgspec.structs.replace(compiled, advice=recommended)


def build_pod_view(pod: Document) -> PodView:
    return PodView.from_pod(msgspec.convert(pod, Pod))


def workload(governor_: Governor, *pods: Document, **more: Any) -> WorkloadView:
    return WorkloadView(governor_, tuple(build_pod_view(pod) for pod in pods), **more)


def decided(governor_: Governor, *pods: Document, settings: UpdateSettings | None = None, **more: Any) -> UpdatePlan:
    now = more.pop("now", NOW)
    return plan_updates(workload(governor_, *pods, **more), now, settings or UpdateSettings())


def list_decisions(plan: UpdatePlan) -> list[tuple[str, str]]:
    return [(decision.kind.value, decision.reason.code) for decision in plan.decisions]


def pair(pod: Document) -> tuple[Document, Document]:
    """Two of a kind, so that one of them may go."""
    other = copy.deepcopy(pod)
    other["metadata"] |= {"name": "web-1-z", "uid": "uid-web-1-z"}
    return pod, other


class World:
    """A cluster with one workload. `resize_response` says what the kubelet makes of a resize: act, defer, never."""

    def __init__(self, governor_: Governor, template: Document, replicas: int, **more: Any) -> None:
        self.governor = governor_
        self.template = template
        self.replicas = replicas
        self.budget: int = more.pop("budget", 0)
        self.resize_response: str = more.pop("resize_response", "act")
        self.webhook: bool = more.pop("webhook", True)
        self.limits: NamespaceLimits = more.pop("limits", NamespaceLimits())
        self.now = NOW
        self.pods: dict[str, Document] = {}
        self.attempts = WorkloadAttempts()
        self.evicted: list[Document] = []
        self.resized: list[tuple[Document, Document]] = []
        self._made = 0
        for _ in range(replicas):
            self.create(admitted=False)

    def __repr__(self) -> str:
        """What a failing test was about."""
        shown = (self.governor.vpa.mode, self.governor.vpa.requirements, self.governor.advice, self.template)
        return f"World({shown}, replicas={self.replicas}, resize_response={self.resize_response}, pods={self.pods})"

    def create(self, *, admitted: bool = True) -> Document:
        self._made += 1
        name = f"web-1-{self._made}"
        pod = running(name, *copy.deepcopy(self.template["containers"]), age=NOW - self.now, ready=False)
        pod["status"]["phase"] = "Pending"
        if admitted and self.webhook:
            decision = admit_pod(msgspec.convert(pod, Pod), self.governor, self.limits, BoostSettings(), lambda: None)
            pod = apply_patch(pod, decision.patch)
        self._in_force(pod)
        self.pods[name] = pod
        return pod

    def _in_force(self, pod: Document) -> None:
        pod["status"]["containerStatuses"] = [
            {"name": container["name"], "resources": copy.deepcopy(container["resources"])}
            for container in pod["spec"]["containers"]
        ]

    def view(self) -> WorkloadView:
        return WorkloadView(
            self.governor,
            tuple(build_pod_view(pod) for pod in self.pods.values()),
            configured_replicas={GROUP: self.replicas},
            limits=self.limits,
            attempts=self.attempts,
        )

    def serving(self) -> list[Document]:
        return [
            pod
            for pod in self.pods.values()
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    def execute(self, actions: Iterable[Action], settings: UpdateSettings) -> list[ActionResult]:
        outcomes = [ActionResult(action, self._execute(action)) for action in actions]
        for outcome in outcomes:
            self.attempts = record_result(self.attempts, outcome, self.now, settings)
        return outcomes

    def _execute(self, action: Action) -> WriteResult:
        pod = self.pods.get(action.pod.name)
        if pod is None or pod["metadata"]["uid"] != action.pod.uid:
            return WriteResult.GONE
        if isinstance(action, EvictPod):
            if pod["status"]["phase"] == "Running" and len(self.serving()) <= self.budget:
                return WriteResult.REFUSED
            pod["metadata"]["deletionTimestamp"] = time(self.now)
            self.evicted.append(pod)
            return WriteResult.APPLIED
        before = copy.deepcopy(pod)
        try:
            changed = apply_patch(pod, action.patch)
        except PatchRefused:
            return WriteResult.INVALID
        if isinstance(action, ResizePod) and self.resize_response == "refuse":
            return WriteResult.INFEASIBLE
        self.pods[action.pod.name] = changed
        if isinstance(action, ResizePod):
            self.resized.append((before, changed))
        return WriteResult.APPLIED

    def advance(self, seconds: float) -> None:
        """Time passes: kubelets act, pods start, those that go are replaced."""
        self.now += seconds
        for name, pod in list(self.pods.items()):
            if "deletionTimestamp" in pod["metadata"]:
                del self.pods[name]
                self.create()
            elif pod["status"]["phase"] == "Pending":
                pod["status"]["phase"] = "Running"
                pod["status"]["conditions"] = [
                    {"type": "Ready", "status": "True", "lastTransitionTime": time(self.now)}
                ]
            else:
                self._kubelet(pod)

    def _kubelet(self, pod: Document) -> None:
        conditions = [condition for condition in pod["status"]["conditions"] if condition["type"] != "PodResizePending"]
        requested = [container["resources"] for container in pod["spec"]["containers"]]
        if requested != [status["resources"] for status in pod["status"]["containerStatuses"]]:
            reason = {"defer": "Deferred", "never": "Infeasible"}.get(self.resize_response)
            if reason is None:
                self._in_force(pod)
            else:
                pending = [
                    condition for condition in pod["status"]["conditions"] if condition["type"] == "PodResizePending"
                ]
                since = pending[0]["lastTransitionTime"] if pending else time(self.now)
                conditions.append(
                    {"type": "PodResizePending", "status": "True", "reason": reason, "lastTransitionTime": since}
                )
        pod["status"]["conditions"] = conditions
