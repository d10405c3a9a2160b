"""Why is a node there, and why is it not removed? The verdict on it, and who and what is on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from trellis.api.kube.nodes import Node
from trellis.core.buffers.said import Said
from trellis.core.explain.buffer_parts import Told
from trellis.core.explain.node_parts import GroupPart, NodePart, Share, Tenant
from trellis.core.explain.noding import Noded
from trellis.core.explain.parts import Amounts
from trellis.core.explain.wording import time_text
from trellis.core.fit import Demand
from trellis.core.fit.resources import PODS
from trellis.core.model.patches import quantity_text
from trellis.core.nodes.budgets import Budgets
from trellis.core.nodes.down_settings import DownSettings
from trellis.core.nodes.down_verdicts import NODE_UNNEEDED
from trellis.core.nodes.drainability import why_stays
from trellis.core.nodes.pods import PlacedPod


def node_part(node: Node, noded: Noded | None) -> NodePart:
    """What is said of a node; without plans, only what it says itself."""
    name = node.metadata.name
    ready = any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
    part = NodePart(name, ready)
    verdict = noded.verdict(name) if noded is not None else None
    if noded is None or verdict is None:
        return part
    later = None
    if verdict.said.reason == NODE_UNNEEDED and verdict.look is not None:
        later = noded.later(name, verdict.look)
    return msgspec.structs.replace(
        part,
        outcome=verdict.outcome.value,
        told=told(verdict.said),
        used=verdict.utilization,
        threshold=noded.components.nodes_down.scale_down_utilization_threshold,
        since=time_text(verdict.since),
        next_look=time_text(verdict.look),
        then=told(later.said) if later is not None else None,
        group=_group(noded, name),
        shares=tuple(_shares(noded, name)),
        tenants=tuple(_tenants(noded, name)),
        chunks=dict(sorted(_chunks(noded, name).items())),
    )


def told(said: Said) -> Told:
    """What was said, as a part."""
    return Told(said.reason, said.details)


def _group(noded: Noded, name: str) -> GroupPart | None:
    known = noded.snapshot.ties.instances.get(name)
    if known is None:
        return None
    state, instance = noded.snapshot.groups[known[0]], known[1]
    group = state.group
    since = time_text(instance.since)
    return GroupPart(group.name, instance.state.value, since, state.target, group.min_size, group.max_size, group.price)


def _shares(noded: Noded, name: str) -> Iterator[Share]:
    table, used = noded.snapshot.table, noded.snapshot.running.used
    number = table.find(name)
    for resource, row in table.resources.items():
        offered, asked = int(table.allocatable[row, number]), int(used.amounts[row, number])
        if offered or asked:
            yield Share(resource, quantity_text(resource, asked), quantity_text(resource, offered))


def _tenants(noded: Noded, name: str) -> Iterator[Tenant]:
    budgets, settings = Budgets(noded.view.budgets), noded.components.nodes_down
    for (namespace, pod), placed in sorted(noded.snapshot.on(name).items()):
        fate, held = _fate(placed, budgets, settings)
        yield Tenant(namespace, pod, fate, _requests(placed.demand), held)


def _fate(placed: PlacedPod, budgets: Budgets, settings: DownSettings) -> tuple[str, Told | None]:
    if placed.is_fixed:
        return "fixed", None
    if placed.pod.metadata.deletion_timestamp is not None:
        return "going", None
    stays = why_stays(placed, budgets, settings)
    if stays is not None:
        return "stay", told(stays)
    refused = budgets.why_not(placed.pod)
    return "moved", told(refused) if refused is not None else None


def _chunks(noded: Noded, name: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for verdict in noded.up.buffers:
        count = verdict.nodes.count(name)
        if count:
            found["/".join(verdict.key)] = count
    return found


def _requests(demand: Demand) -> Amounts:
    return {name: quantity_text(name, amount) for name, amount in demand.amounts if name != PODS}
