"""What fleet is in a dump? Its nodes and workloads as they are, with what they used, to be sized in several ways.

Variants: as the templates of the workloads ask, as the VPAs in the dump have it, and for each recommender that is
wanted with a VPA over every workload. What a dump does not tell is assumed, and every assumption is noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import READY
from trellis.base.counted import counted
from trellis.base.errors import InvalidInput
from trellis.base.names import nearest
from trellis.base.prices import EXAMPLE_PRICES, Prices
from trellis.core.model.collected import Collected
from trellis.core.model.recording import encode
from trellis.core.recommend.built_in import built_in_recommenders
from trellis.sim.dump.usage import DumpUsage
from trellis.sim.dump.variants import variants_of
from trellis.sim.dump.workloads import Found, find_workloads, template_document
from trellis.sim.fleet import Clock, Document, Fleet, Intervals, NodeShape, Start, Workload
from trellis.sim.scenario.compiling import DEFAULT_SEED
from trellis.sim.scenario.nodes import compile_nodes
from trellis.sim.scenario.usage import amount

_HOUR: Final = 3_600.0
_DAYS: Final = 7
_STEP: Final = 300.0
# Of the time that is played, so much passes before anything is counted: recommenders begin without a memory.
_WARM_UP: Final = 0.25
_HOST_NAME: Final = "kubernetes.io/hostname"


class FromDump(msgspec.Struct, frozen=True):
    """The fleet, and what had to be assumed."""

    fleet: Fleet
    notes: tuple[str, ...]


def fleet_from_dump(
    collected: Collected, name: str, *, recommenders: Sequence[str] = (), seed: int | None = None
) -> FromDump:
    """Everything in a dump that can be played; raises `InvalidInput` if there is nothing, or for a recommender."""
    for each in recommenders:
        _check(each)
    found, notes = find_workloads(collected)
    if not found:
        raise InvalidInput(name, "has no running pods that could be played")
    chosen = DEFAULT_SEED if seed is None else seed
    clock = _clock(collected)
    usage = DumpUsage(collected, found, clock, chosen)
    workloads = tuple(_workload(each, usage) for each in found)
    variants, said = variants_of(collected, found, recommenders)
    nodes, told = _nodes(collected, workloads)
    sources = ", ".join(f"{source} ({counted(count, 'container')})" for source, count in usage.sources.items())
    changed = [each for each in found if each.kind != each.target.kind]
    kinds = sorted({each.target.kind for each in changed})
    played = (
        [f"{counted(len(changed), 'workload')} of kind {', '.join(kinds)} played as Deployments"] if changed else []
    )
    # Between two steps nothing new is known of usage, so that asking more often would only take longer.
    intervals = Intervals(clock.step, clock.step)
    fleet = Fleet(name, chosen, clock, intervals, nodes, workloads, variants, prices=EXAMPLE_PRICES)
    decided = f"sizes are decided every {clock.step / 60:g} minutes, as often as the dump knows usage"
    return FromDump(fleet, (f"what is used follows from {sources}", decided, *played, *notes, *told, *said))


def _check(recommender: str) -> None:
    known = built_in_recommenders()
    if recommender not in known:
        guess = nearest(recommender, known)
        hint = f" (did you mean {guess}?)" if guess else ""
        raise InvalidInput(recommender, f"there is no such recommender; there are {', '.join(known)}{hint}")


def _clock(collected: Collected) -> Clock:
    """The time that the dump has usage of; without any, the last days before it was made."""
    series = collected.history
    if not series:
        end = collected.time // _HOUR * _HOUR
        steps = round(_DAYS * 24 * _HOUR / _STEP)
        return _clocked(end - steps * _STEP, _STEP, steps)
    begin = min(float(each.times[0]) for each in series)
    end = max(float(each.times[-1]) for each in series)
    apart = [float(np.median(np.diff(each.times))) for each in series if len(each) > 1]
    step = max(_STEP, float(np.median(apart)) if apart else _STEP)
    return _clocked(begin, step, max(1, round((end - begin) / step) + 1))


def _clocked(begin: float, step: float, steps: int) -> Clock:
    return Clock(begin, step, steps, begin + step * int(steps * _WARM_UP))


def _workload(found: Found, usage: DumpUsage) -> Workload:
    containers = found.template.spec.containers
    probed = any(each.readiness_probe is not None or each.startup_probe is not None for each in containers)
    return Workload(
        namespace=found.target.namespace,
        name=found.name,
        kind=found.kind,
        replicas=found.replicas,
        template=template_document(found),
        demand=tuple(usage.demand(found, container) for container in found.containers),
        start=Start(probe=probed),
        max_unavailable=found.max_unavailable,
        label="" if found.target.kind == found.kind else found.target.kind,
    )


def _nodes(collected: Collected, workloads: Sequence[Workload]) -> tuple[tuple[NodeShape, ...], list[str]]:
    """Nodes that are ready, those alike together."""
    shapes: dict[bytes, tuple[Document, int]] = {}
    left_out = 0
    for node in collected.nodes:
        if any(each.type == READY and each.status != "True" for each in node.status.conditions):
            left_out += 1
            continue
        document = _node(node)
        key = msgspec.json.encode(document, order="sorted")
        shapes[key] = (document, shapes[key][1] + 1 if key in shapes else 1)
    if not shapes:
        return compile_nodes(None, workloads, EXAMPLE_PRICES), [
            "the dump has no nodes: enough are assumed for all pods"
        ]
    made = [
        NodeShape(f"node{number}", count, document, _price(document, EXAMPLE_PRICES))
        for number, (document, count) in enumerate(shapes.values(), start=1)
    ]
    return tuple(made), [f"left out, because not ready: {counted(left_out, 'node')}"] if left_out else []


def _node(node: Node) -> Document:
    labels = {key: value for key, value in node.metadata.labels.items() if key != _HOST_NAME}
    offered = dict(node.status.allocatable or node.status.capacity)
    document: Document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"labels": labels},
        "spec": msgspec.json.decode(encode(msgspec.structs.replace(node.spec, provider_id=""))),
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "nodeInfo": msgspec.json.decode(encode(node.status.node_info)),
        },
    }
    return document


def _price(node: Document, prices: Prices) -> float:
    offered = node["status"]["allocatable"]
    return prices.hourly(amount(offered.get("cpu")), amount(offered.get("memory")))
