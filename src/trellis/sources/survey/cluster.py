"""Lists the workloads of a cluster from the API server. Forbidden kinds are reported and skipped.

Not all of the rights are needed: without ReplicaSets the names of pods tell their owners; without HPAs it is unknown
what a new request does to them, and without LimitRanges whether it is allowed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from trellis.api.kube.nodes import Node
from trellis.base.errors import KubeError, Unauthorized, Unreachable, UnreadableObject
from trellis.core.advice.survey.model import ResourceAmount
from trellis.core.advice.survey.scope import SurveyObjects, WorkloadFilter
from trellis.core.cluster.dump_format import MissingData
from trellis.core.cluster.pod_resources import parse_cpu_millicores, parse_memory_bytes
from trellis.core.cluster.store import key_of
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
from trellis.sources.cluster.lists import (
    NOT_SERVED,
    UNREADABLE,
    CollectionScope,
    NamespaceScope,
    describe_error,
    list_pages,
    read_in_namespaces,
    resolve_namespaces,
)

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


class _KindList(msgspec.Struct, frozen=True):
    """The objects of a kind in the chosen namespaces, and what could not be read."""

    objects: list[Any]
    missing: list[MissingData]


async def list_cluster_workloads(
    client: Client, workload_filter: WorkloadFilter, context_namespace: str = "", *, nodes: bool = False
) -> SurveyObjects:
    """The objects of the chosen workloads; `own` is the namespace of the context. Raises `KubeError`.

    `nodes` is whether to read the size of the largest node.
    """
    patterns = tuple(pattern for pattern in workload_filter.namespaces if not pattern.startswith("!"))
    namespaces = await resolve_namespaces(client, CollectionScope(patterns, context_namespace))
    resources = (OBSERVED_PODS, *_WORKLOADS, HPAS, LIMIT_RANGES, VPAS)
    listed = await asyncio.gather(*(_list(client, resource, namespaces, workload_filter) for resource in resources))
    pods, *workloads, hpas, ranges, vpas = listed
    lists = (pods, *workloads, hpas, ranges)
    namespace_names = {item.metadata.namespace for kind_list in (pods, *workloads) for item in kind_list.objects}
    # A cluster without the CRD of VPAs lacks nothing.
    others = [missing for missing in vpas.missing if missing.why != NOT_SERVED]
    largest, unread = await _find_largest_node(client) if nodes else (ResourceAmount(), [])
    return SurveyObjects(
        namespaces=tuple(sorted(namespace_names)),
        pods=pods.objects,
        workloads={resource.kind: kind_list.objects for resource, kind_list in zip(_WORKLOADS, workloads, strict=True)},
        hpas=hpas.objects,
        vpas=vpas.objects,
        limit_ranges=ranges.objects,
        missing=(
            *namespaces.missing,
            *(missing for kind_list in lists for missing in kind_list.missing),
            *others,
            *unread,
        ),
        largest_node=largest,
    )


async def _find_largest_node(client: Client) -> tuple[ResourceAmount, list[MissingData]]:
    """The allocatable of the largest node by resource; unknown if nodes may not be listed."""
    nodes: list[Node] = []
    try:
        async for page in list_pages(client, NODES):
            nodes += page.items
    except (Unreachable, Unauthorized):
        raise
    except (KubeError, UnreadableObject) as error:
        return ResourceAmount(), [MissingData(NODES.kind, "", describe_error(error, NODES))]
    sizes = [node.status.allocatable for node in nodes]
    cpu = max((parse_cpu_millicores(size.get("cpu", "")) for size in sizes), default=math.nan)
    memory = max((parse_memory_bytes(size.get("memory", "")) for size in sizes), default=math.nan)
    return ResourceAmount(cpu, memory), []


async def _list(
    client: Client, resource: Resource[Any], namespaces: NamespaceScope, workload_filter: WorkloadFilter
) -> _KindList:
    objects: dict[tuple[str, str], Any] = {}
    missing: list[MissingData] = []

    async def read(namespace: str) -> str:
        try:
            async for page in list_pages(client, resource, namespace):
                objects.update(
                    (key_of(item), item) for item in page.items if workload_filter.covers(item.metadata.namespace)
                )
                missing.extend(
                    MissingData(
                        f"{resource.kind} {rejected.name}", rejected.namespace, f"{UNREADABLE}: {rejected.message}"
                    )
                    for rejected in page.rejected
                    if workload_filter.covers(rejected.namespace)
                )
        except (Unreachable, Unauthorized):
            raise
        except (KubeError, UnreadableObject) as error:
            return describe_error(error, resource)
        return ""

    missing += await read_in_namespaces(resource.kind, namespaces, read)
    return _KindList(list(objects.values()), missing)
