"""A recommender without Trellis, for VPAs that name "simple": recommends 1.5 times the current usage."""

import json
import subprocess
from datetime import UTC, datetime
from typing import Any

UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def kubectl(*arguments: str) -> Any:
    """The output of kubectl, as JSON."""
    return json.loads(subprocess.run(["kubectl", *arguments], stdout=subprocess.PIPE, check=True).stdout)  # noqa: S603, S607


def amount(text: str) -> float:
    """Cores or bytes."""
    unit = text.lstrip("0123456789.")
    return float(text.removesuffix(unit)) * UNITS.get(unit, 1)


for vpa in kubectl("get", "vpa", "--all-namespaces", "--output=json")["items"]:
    if [recommender["name"] for recommender in vpa["spec"].get("recommenders", [])] != ["simple"]:
        continue  # another recommender serves it: leave its status alone
    target, namespace = vpa["spec"]["targetRef"], f"--namespace={vpa['metadata']['namespace']}"
    labels = kubectl("get", target["kind"], target["name"], namespace, "--output=json")["spec"]["selector"][
        "matchLabels"
    ]
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    cpu: dict[str, float] = {}
    memory: dict[str, float] = {}
    for pod in kubectl("get", "pods.metrics.k8s.io", namespace, f"--selector={selector}", "--output=json")["items"]:
        for name, usage in ((container["name"], container["usage"]) for container in pod["containers"]):
            cpu[name] = max(cpu.get(name, 0.0), amount(usage["cpu"]))
            memory[name] = max(memory.get(name, 0.0), amount(usage["memory"]))
    advice: list[dict[str, Any]] = [{"containerName": name} for name in sorted(cpu)]
    for entry in advice:
        for field, factor in (("lowerBound", 1.0), ("target", 1.5), ("upperBound", 2.0)):
            cores, size = factor * cpu[entry["containerName"]], factor * memory[entry["containerName"]]
            entry[field] = {"cpu": f"{1000 * cores:.0f}m", "memory": f"{size:.0f}"}
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    provided = {"type": "RecommendationProvided", "status": str(bool(advice)), "lastTransitionTime": now}
    status = {"recommendation": {"containerRecommendations": advice}, "conditions": [provided]}
    patch = ("--subresource=status", "--type=merge", f"--patch={json.dumps({'status': status})}", "--output=json")
    kubectl("patch", "vpa", vpa["metadata"]["name"], namespace, *patch)
