"""On what does a scenario run? Its nodes as manifests, counted and priced."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from trellis.api.kube.decode import convert_object
from trellis.api.kube.pods import PodTemplateSpec
from trellis.api.scenario import ScenarioNodes
from trellis.base.prices import Prices
from trellis.sim.fleet import NodeShape, Workload
from trellis.sim.scenario.usage import amount

# Room for rollouts, boosts and growth above what is requested first.
_ROOM: Final = 4 / 3
_GIB: Final = 2.0**30
_PODS: Final = 110
_DEFAULT: Final = ScenarioNodes(name="node", cpu="8", memory="32Gi")
# The first version whose kubelets resize in place without a gate, and tell of it in conditions.
_KUBELET: Final = "v1.34.0"


Amounts: TypeAlias = tuple[float, float, float]


def compile_nodes(
    written: Sequence[ScenarioNodes] | None, workloads: Sequence[Workload], prices: Prices
) -> tuple[NodeShape, ...]:
    """Every shape with its count; where the last has none, enough for all first requests and a third more."""
    asked = [sum(each) for each in zip(*(_of_all_pods(each) for each in workloads), strict=True)]
    counted: list[NodeShape] = []
    for shape in written or (_DEFAULT,):
        offered = _offered(shape)
        pairs = [(want, have) for want, have in zip(asked, offered, strict=True) if have]
        count = shape.count or max(1, *(math.ceil(_ROOM * want / have) for want, have in pairs))
        asked = [max(0.0, want - have * count / _ROOM) for want, have in zip(asked, offered, strict=True)]
        price = shape.price
        if price is None:
            price = prices.hourly(offered[0], offered[1])
        counted.append(NodeShape(shape.name, count, _document(shape), price))
    return tuple(counted)


def pods_that_fit_nowhere(
    written: Sequence[ScenarioNodes] | None, workloads: Sequence[Workload]
) -> Iterator[tuple[int, str]]:
    """The number of each workload whose pods are larger than any node, and what they want too much of."""
    offers = [_offered(shape) for shape in written or (_DEFAULT,)]
    for number, workload in enumerate(workloads):
        wanted = _of_one_pod(workload)
        if not any(wanted[0] <= offer[0] and wanted[1] <= offer[1] for offer in offers):
            yield number, f"a pod requests {wanted[0]:g} CPU and {wanted[1] / _GIB:.3g}Gi, and no node has as much"


def _offered(shape: ScenarioNodes) -> Amounts:
    return amount(shape.cpu), amount(shape.memory), float(shape.pods or _PODS)


def _of_all_pods(workload: Workload) -> Amounts:
    cpu, memory, pods = _of_one_pod(workload)
    return workload.replicas * cpu, workload.replicas * memory, workload.replicas * pods


def _of_one_pod(workload: Workload) -> Amounts:
    containers = convert_object(workload.template, PodTemplateSpec).spec.containers
    requests = [each.resources.requests for each in containers]
    cpu, memory = (sum(amount(each.get(resource)) for each in requests) for resource in ("cpu", "memory"))
    return cpu, memory, 1.0


def _document(shape: ScenarioNodes) -> dict[str, Any]:
    """A Node manifest without a name; what it has is what pods may ask for."""
    offered = {"cpu": str(shape.cpu), "memory": str(shape.memory), "pods": str(shape.pods or _PODS)}
    taints = [
        {"key": each.key, **({"value": each.value} if each.value else {}), "effect": each.effect}
        for each in shape.taints or ()
    ]
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", **(shape.labels or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"labels": labels},
        "spec": {"taints": taints} if taints else {},
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": _KUBELET, "operatingSystem": "linux", "architecture": "amd64"},
        },
    }
