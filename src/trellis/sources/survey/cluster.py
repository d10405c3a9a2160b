"""What is there, going by the API server? What may not be read is named and left out.

Nobody needs all of the rights: without ReplicaSets the names of pods tell whose they are, and without HPAs nobody knows
what a new request does to them, nor without LimitRanges whether it is allowed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from trellis.api.kube.nodes import Node
from trellis.base.errors import KubeError, Unreachable, UnreadableObject
from trellis.core.advice.choice import Choice
from trellis.core.advice.present import Present
from trellis.core.advice.surveyed import Amount
from trellis.core.model.dump_lines import Missing
from trellis.core.model.keys import key_of
from trellis.core.model.pods import cpu_millicores, memory_bytes
from trellis.kube.client import Client
from trellis.kube.resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    HPAS,
    JOBS,
    LIMIT_RANGES,
    NODES,
    OBSERVED_PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    VPAS,
    Resource,
)
from trellis.sources.cluster.listing import NOT_SERVED, UNREADABLE, pages_of, why_not
from trellis.sources.cluster.lists import in_all_places
from trellis.sources.cluster.where import Places, Wanted, find_places

# A Deployment's old ReplicaSets have a whole template each, of which nothing is read.
_WORKLOADS: Final[Sequence[Resource[Any]]] = (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS.as_metadata(),
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)


class _Listed(msgspec.Struct, frozen=True):
    """The objects of a kind that are asked about, and what of them is missing."""

    objects: list[Any]
    missing: list[Missing]


async def cluster_present(client: Client, choice: Choice, own: str = "", *, nodes: bool = False) -> Present:
    """All that is asked about; `own` is the namespace of who asks. Raises `KubeError` if nobody answers.

    `nodes` is whether to look how large they are.
    """
    patterns = tuple(each for each in choice.namespaces if not each.startswith("!"))
    places = await find_places(client, Wanted(patterns, own))
    every = (OBSERVED_PODS, *_WORKLOADS, HPAS, LIMIT_RANGES, VPAS)
    listed = await asyncio.gather(*(_list(client, each, places, choice) for each in every))
    pods, *workloads, hpas, ranges, vpas = listed
    found = (pods, *workloads, hpas, ranges)
    here = {each.metadata.namespace for some in (pods, *workloads) for each in some.objects}
    # Where nobody has VPAs, nothing is missing.
    others = [each for each in vpas.missing if each.why != NOT_SERVED]
    largest, unread = await _largest_node(client) if nodes else (Amount(), [])
    return Present(
        namespaces=tuple(sorted(here)),
        pods=pods.objects,
        workloads={each.kind: some.objects for each, some in zip(_WORKLOADS, workloads, strict=True)},
        hpas=hpas.objects,
        vpas=vpas.objects,
        limit_ranges=ranges.objects,
        missing=(*places.missing, *(each for some in found for each in some.missing), *others, *unread),
        largest_node=largest,
    )


async def _largest_node(client: Client) -> tuple[Amount, list[Missing]]:
    """How much pods may request of each resource on one node; nothing is known if nobody may see nodes."""
    found: list[Node] = []
    try:
        async for page in pages_of(client, NODES):
            found += page.items
    except Unreachable:
        raise
    except (KubeError, UnreadableObject) as error:
        return Amount(), [Missing(NODES.kind, "", why_not(error, NODES))]
    sizes = [each.status.allocatable for each in found]
    cpu = max((cpu_millicores(each.get("cpu", "")) for each in sizes), default=math.nan)
    memory = max((memory_bytes(each.get("memory", "")) for each in sizes), default=math.nan)
    return Amount(cpu, memory), []


async def _list(client: Client, resource: Resource[Any], places: Places, choice: Choice) -> _Listed:
    objects: dict[tuple[str, str], Any] = {}
    missing: list[Missing] = []

    async def read(place: str) -> str:
        try:
            async for page in pages_of(client, resource, place):
                objects.update((key_of(each), each) for each in page.items if choice.covers(each.metadata.namespace))
                missing.extend(
                    Missing(f"{resource.kind} {each.name}", each.namespace, f"{UNREADABLE}: {each.message}")
                    for each in page.rejected
                    if choice.covers(each.namespace)
                )
        except Unreachable:
            raise
        except (KubeError, UnreadableObject) as error:
            return why_not(error, resource)
        return ""

    missing += await in_all_places(resource.kind, places, read)
    return _Listed(list(objects.values()), missing)
