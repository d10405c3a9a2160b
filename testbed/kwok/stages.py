"""The stages of kwok: when it acts, as the kubelet, and on which objects.

A stage is a selector (jq over the object) and a patch of the status, from `patches`. kwok plays a
stage when an object matches it. What that asks of stages:
- If several match, kwok picks one by chance, but never one of weight 0 beside one above it. Stages that
  wait have weight 0, so that they do not keep the others from being played.
- A stage may be played twice on the same, stale object. So every patch states a result ("restarted n
  times") and none a step ("once more").
- A patch that the API server refuses is not tried again before the object changes.
"""

from __future__ import annotations

from testbed.client import Json
from testbed.kwok.annotations import (
    CGROUP,
    CRASHED,
    DEFERRED,
    FINISH,
    FINISH_AFTER,
    HELD,
    IN_PROGRESS,
    INFEASIBLE,
    OOM_KILLED,
    READY_AFTER,
    RESIZE,
    RESTARTED,
)
from testbed.kwok.patches import (
    ACTUATE,
    ACTUATE_IN_CGROUP,
    ALLOCATE,
    COME_BACK,
    CRASH,
    END,
    GET_READY,
    NODE_UP,
    POSTPONE,
    RESTART,
    REWRITE,
    RUN,
)

API_VERSION = "kwok.x-k8s.io/v1alpha1"

# What the selectors share. A sidecar (an init container that restarts always) is resized like a container.
DEFINITIONS = """
def note(key): (.metadata.annotations // {})[key];
def running: .status.phase == "Running" and (.metadata.deletionTimestamp | not);
def condition(type): (.status.conditions // [])[] | select(.type == type);
def ready: any(condition("Ready"); .status == "True");
def lasting: .spec.containers + [(.spec.initContainers // [])[] | select(.restartPolicy == "Always")];
def statuses: (.status.containerStatuses // []) + (.status.initContainerStatuses // []);
def by_name: map({key: .name, value: (.resources // {})}) | from_entries;
def wanted: [(lasting | by_name), (.spec.resources // {})];
def named($names): .name as $name | $names | index($name) != null;
def staying: (lasting | map(.name)) as $names | statuses[] | select(named($names));
def down: any(staying; .state.terminated);
def crashed: (note("%(crashed)s") // "") | split(",");
def actual: [([staying] | by_name), (.status.resources // {})];
def unsettled: any(condition("PodResizePending", "PodResizeInProgress"); true);
def noted(type; reason): .metadata.generation as $now
  | any(condition(type); (.reason // "") == reason and .observedGeneration == $now);
def counts(key): [(note(key) // "") | split(",")[] | split("=") | {key: .[0], value: (.[1] | tonumber)}]
  | from_entries;
""".replace("%(crashed)s", CRASHED)


def build_stages() -> list[Json]:
    """Everything that happens to nodes and pods."""
    modes = f'"{DEFERRED}", "{INFEASIBLE}"'
    free = " and ".join(f'note("{RESIZE}") != "{mode}"' for mode in (DEFERRED, INFEASIBLE, IN_PROGRESS, HELD))
    names = {"ready_after": READY_AFTER, "finish": FINISH, "resize": RESIZE, "crashed": CRASHED, "cgroup": CGROUP}
    return [
        _build_stage("node-up", 'any(condition("Ready"); .status == "True") | not', NODE_UP, kind="Node"),
        _delete("pod-delete"),
        _build_stage("pod-run", '.status.phase == "Pending" and (.metadata.deletionTimestamp | not)', RUN % names),
        _build_stage("pod-ready", "running and (ready | not) and (down | not)", GET_READY + REWRITE, after=READY_AFTER),
        _build_stage(
            "pod-finish",
            f'running and ready and note("{FINISH}") != null',
            (END + REWRITE) % names,
            after=FINISH_AFTER,
        ),
        _build_stage(
            "resize-actuate",
            f"running and (down | not) and (if wanted == actual then unsettled else {free} end)",
            (ACTUATE_IN_CGROUP + REWRITE) % names,
        ),
        _build_stage(
            "resize-actuate-down",
            f"running and down and (if wanted == actual then unsettled else {free} end)",
            ACTUATE + REWRITE,
        ),
        _build_stage(
            "pod-crash",
            "running and (crashed as $named | any(staying; .state.running and named($named)))",
            (CRASH + REWRITE) % names,
        ),
        _build_stage(
            "pod-come-back",
            "running and (crashed as $named | any(staying; .state.terminated and (named($named) | not)))",
            (COME_BACK + REWRITE) % names,
        ),
        _build_stage(
            "resize-postpone",
            f'running and wanted != actual and (note("{RESIZE}") as $why'
            f' | any({modes}; . == $why) and (noted("PodResizePending"; $why) | not))',
            POSTPONE % names,
        ),
        _build_stage(
            "resize-allocate",
            f'running and wanted != actual and note("{RESIZE}") == "{IN_PROGRESS}"'
            ' and (noted("PodResizeInProgress"; "") | not)',
            ALLOCATE + REWRITE,
        ),
        _restart("pod-oom-kill", OOM_KILLED, "OOMKilled", 137),
        _restart("pod-restart", RESTARTED, "Error", 1),
    ]


def _build_stage(name: str, selector: str, template: str, kind: str = "Pod", after: str = "") -> Json:
    """`after` names the annotation with the seconds since the pod's start at which the stage is due."""
    spec: Json = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {
            "matchExpressions": [{"jq": {"key": DEFINITIONS + selector, "operator": "In", "values": ["true"]}}]
        },
        "weight": 0 if after else 1,
        "steps": [{"patch": {"subresource": "status", "root": "status", "template": template}}],
    }
    if after:
        # An instant, not a length of time: kwok begins anew whenever the pod changes.
        delay = f'((.status.startTime | fromdate) + (note("{after}") // "0" | tonumber)) | todate'
        spec["delay"] = {"durationMilliseconds": 0, "durationFrom": {"jq": {"expression": DEFINITIONS + delay}}}
    return {"apiVersion": API_VERSION, "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def _restart(name: str, annotation: str, reason: str, code: int) -> Json:
    selector = (
        f'running and (counts("{annotation}") as $counts | any(statuses[]; .restartCount < ($counts[.name] // 0)))'
    )
    return _build_stage(
        name, selector, (RESTART + REWRITE) % {"annotation": annotation, "reason": reason, "code": code}
    )


def _delete(name: str) -> Json:
    """No grace: what a pod does with its last seconds is not simulated."""
    stage = _build_stage(name, ".metadata.deletionTimestamp != null", "")
    stage["spec"]["steps"] = [{"delete": True}]
    return stage
