"""Finds the components of an autoscaler that a cluster runs: image, version, ready replicas and leader."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

import msgspec

from trellis.api.kube.coordination import Lease
from trellis.api.kube.workloads import ReplicatedStatus
from trellis.base.errors import KubeError
from trellis.base.replica_assignment import is_member_lease
from trellis.core.cluster.dump_format import DumpedComponent
from trellis.kube.client import Client
from trellis.kube.resources import DEPLOYMENTS, LEASES, Resource
from trellis.sources.cluster.components import NAMESPACES, ComponentDeployment, find_components, read_config_map
from trellis.sources.cluster.lists import describe_error


class InstalledDeployment(ComponentDeployment, frozen=True):
    """A Deployment with the commands of its containers and its ready replicas."""

    status: ReplicatedStatus = ReplicatedStatus()


class InstalledComponent(msgspec.Struct, frozen=True, rename="camel"):
    """A component, by the Deployment that runs it. `version` is the tag of its image; `leader` holds its Lease.

    One that is known by its Lease alone, such as a process outside of the cluster, has no Deployment and no image.
    """

    component: str
    namespace: str
    deployment: str = ""
    image: str = ""
    version: str = ""
    replicas: int = 0
    ready: int = 0
    leader: str = ""


class InstalledComponents(msgspec.Struct, frozen=True, rename="camel"):
    """The components of a cluster, and its server's version; `problems` says what could not be read."""

    server: str
    components: tuple[InstalledComponent, ...]
    problems: tuple[str, ...] = ()


# How long a Lease without a duration is good for, such as that of an admission controller.
_LEASE_SECONDS: Final = 60
_WILD: Final = frozenset("*?[")
_DEPLOYMENTS: Final[Resource[InstalledDeployment]] = DEPLOYMENTS.read_as(InstalledDeployment)


# The Leases of components by their usual names, upstream's included.
COMPONENTS_BY_LEASE: Final = {
    "vpa-recommender-lease": "recommender",
    "vpa-updater": "updater",
    "vpa-admission-controller": "admission-controller",
    "trellis-hvpa": "hvpa",
    "trellis-buffers": "buffers",
    "trellis-nodes": "nodes",
}


async def find_installed_components(client: Client, namespaces: Sequence[str], now: float) -> InstalledComponents:
    """The components in matching namespaces, or in all; raises `KubeError` if the server does not respond."""
    server = (await client.version()).git_version
    problems: list[str] = []
    deployments: list[InstalledDeployment] = []
    plain = all(not set(namespace) & _WILD for namespace in namespaces)
    for namespace in namespaces if namespaces and plain else ("",):
        deployments += await _list_deployments(client, namespace, problems)
    if namespaces:
        deployments = [
            item for item in deployments if any(fnmatchcase(item.metadata.namespace, pattern) for pattern in namespaces)
        ]
    by_key = {(item.metadata.namespace, item.metadata.name): item for item in deployments}
    components = await find_components(deployments, partial(read_config_map, client))
    leases: list[Lease] = []
    for namespace in sorted({component.namespace for component in components} | set(NAMESPACES)):
        if namespaces and not any(fnmatchcase(namespace, pattern) for pattern in namespaces):
            continue
        try:
            leases += (await client.list_all(LEASES, namespace)).items
        except KubeError as error:
            problems.append(f"Leases in namespace {namespace}: {describe_error(error)}")
    installed = [_describe(component, by_key[component.namespace, component.name], leases) for component in components]
    installed += _find_by_leases(leases, {component.component for component in installed}, now)
    return InstalledComponents(server, tuple(installed), tuple(problems))


def _find_by_leases(leases: Iterable[Lease], found: Collection[str], now: float) -> Iterator[InstalledComponent]:
    """The components that renew their Leases and that no Deployment runs."""
    for lease in leases:
        component = COMPONENTS_BY_LEASE.get(lease.metadata.name)
        spec = lease.spec
        renewed = spec.renew_time.timestamp() if spec.renew_time is not None else -math.inf
        if component is None or component in found or not spec.holder_identity:
            continue
        if renewed + (spec.lease_duration_seconds or _LEASE_SECONDS) > now:
            yield InstalledComponent(component, lease.metadata.namespace, leader=spec.holder_identity)


async def _list_deployments(client: Client, namespace: str, problems: list[str]) -> list[InstalledDeployment]:
    """The Deployments of a namespace; where all together may not be listed, those of the usual namespaces."""
    try:
        return list((await client.list_all(_DEPLOYMENTS, namespace)).items)
    except KubeError as error:
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        problems.append(f"Deployments {where}: {describe_error(error)}")
    usual = () if namespace else NAMESPACES
    return [deployment for name in usual for deployment in await _list_deployments(client, name, problems)]


def _describe(
    component: DumpedComponent, deployment: InstalledDeployment, leases: Iterable[Lease]
) -> InstalledComponent:
    own = [lease for lease in leases if lease.metadata.namespace == component.namespace]
    # Its own Lease first, and then those of names that a recommender serves.
    own.sort(key=lambda lease: COMPONENTS_BY_LEASE.get(lease.metadata.name) != component.component)
    holders = (
        lease.spec.holder_identity
        for lease in own
        if COMPONENTS_BY_LEASE.get(lease.metadata.name, component.component) == component.component
        and not is_member_lease(lease.metadata.name)
    )
    return InstalledComponent(
        component=component.component,
        namespace=component.namespace,
        deployment=component.name,
        image=component.image,
        version=read_image_tag(component.image),
        replicas=component.replicas,
        ready=deployment.status.ready_replicas,
        leader=next((holder for holder in holders if _is_pod_of(component.name, holder)), ""),
    )


def _is_pod_of(deployment: str, holder: str) -> bool:
    """Whether the holder of a Lease is named after a pod of a Deployment: `updater-5d8f7c9b64-x7k2p`, and more."""
    return re.fullmatch(rf"{re.escape(deployment)}-[a-z0-9]+-[a-z0-9]{{5}}(?:[^a-z0-9-].*)?", holder) is not None


def read_image_tag(image: str) -> str:
    """The tag of an image, else its digest, else `latest`."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return tag or digest or "latest"
