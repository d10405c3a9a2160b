"""Collects all facts of a status or of a diagnosis; parts that do not depend on one another at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from trellis.diagnosis.collection.access import collect_access
from trellis.diagnosis.collection.cluster import (
    collect_definitions,
    collect_metrics_api,
    collect_namespace,
    collect_prometheus,
    collect_server,
)
from trellis.diagnosis.collection.components import collect_installation
from trellis.diagnosis.collection.objects import collect_freezes, collect_objects
from trellis.diagnosis.collection.reader import FactReader
from trellis.diagnosis.collection.webhooks import collect_other_webhooks, collect_webhook
from trellis.diagnosis.doctor import DoctorFacts
from trellis.diagnosis.installation import Installation, find_state, list_component_states
from trellis.diagnosis.status import ClusterFacts
from trellis.kube.client import Client
from trellis.runtime.manager.settings import ADMISSION

# Where an installation goes if no namespace is given.
_DEFAULT_HOME: Final = "trellis-system"


async def collect_facts(
    client: Client,
    clock: float,
    *,
    namespace: str = "",
    own_namespace: str = "",
    probe: bool = False,
    detailed: bool = False,
) -> ClusterFacts:
    """The facts of a status; raises `KubeError` if the API server does not answer.

    `namespace` is that of the components, all if it is empty; `own_namespace` that of the user's context.
    """
    reader = FactReader(client)
    server = await collect_server(reader, clock, detailed=detailed)
    now = clock + (server.skew or 0.0)
    installation, (objects, unlisted), metrics_api = await asyncio.gather(
        collect_installation(reader, namespace),
        collect_objects(reader, now, own_namespace),
        collect_metrics_api(reader, with_pods=detailed),
    )
    admission = find_state(list_component_states(installation, now), ADMISSION)
    webhook, freezes = await asyncio.gather(
        collect_webhook(reader, admission, (own_namespace or "default") if probe else ""),
        collect_freezes(reader, installation, objects),
    )
    return ClusterFacts(
        now,
        replace(server, lease_skews=_find_lease_skews(installation, now)),
        installation,
        webhook,
        freezes,
        objects,
        unlisted,
        metrics_api,
    )


def _find_lease_skews(installation: Installation, now: float) -> Mapping[str, float]:
    """By how much renewals of Leases are in the future."""
    return {
        f"{lease.namespace}/{lease.name}": lease.renewed - now for lease in installation.leases if lease.renewed > now
    }


async def collect_doctor_facts(
    client: Client, clock: float, *, namespace: str = "", own_namespace: str = "", probe: bool = False
) -> DoctorFacts:
    """The facts of a diagnosis; raises `KubeError` if the API server does not answer."""
    reader = FactReader(client)
    cluster = await collect_facts(
        client, clock, namespace=namespace, own_namespace=own_namespace, probe=probe, detailed=True
    )
    installation = cluster.installation
    home = namespace or next((workload.namespace for workload in installation.workloads), _DEFAULT_HOME)
    definitions, webhooks, access, facts, prometheus = await asyncio.gather(
        collect_definitions(reader),
        collect_other_webhooks(reader),
        collect_access(reader, installation, home),
        collect_namespace(reader, home, is_chosen=bool(namespace)),
        collect_prometheus(reader, installation),
    )
    return DoctorFacts(
        cluster=cluster,
        namespace=facts,
        definitions=definitions,
        other_webhooks=webhooks,
        access=access,
        prometheus=prometheus,
    )
