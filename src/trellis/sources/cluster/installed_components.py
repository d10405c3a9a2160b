"""Finds the components of an autoscaler that a cluster runs: image, version, ready replicas and leader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from trellis.api.kube.coordination import Lease
from trellis.api.kube.workloads import ReplicatedStatus
from trellis.base.errors import KubeError
from trellis.core.cluster.dump_format import DumpedComponent
from trellis.kube.client import Client
from trellis.kube.resources import DEPLOYMENTS, LEASES, Resource
from trellis.sources.cluster.components import NAMESPACE, ComponentDeployment, find_components
from trellis.sources.cluster.lists import describe_error


class InstalledDeployment(ComponentDeployment, frozen=True):
    """A Deployment with the commands of its containers and its ready replicas."""

    status: ReplicatedStatus = ReplicatedStatus()


class InstalledComponent(msgspec.Struct, frozen=True, rename="camel"):
    """A component, by the Deployment that runs it. `version` is the tag of its image; `leader` holds its Lease."""

    component: str
    namespace: str
    deployment: str
    image: str
    version: str
    replicas: int
    ready: int
    leader: str = ""


class InstalledComponents(msgspec.Struct, frozen=True, rename="camel"):
    """The components of a cluster, and its server's version; `problems` says what could not be read."""

    server: str
    components: tuple[InstalledComponent, ...]
    problems: tuple[str, ...] = ()


_WILD: Final = frozenset("*?[")
_DEPLOYMENTS: Final[Resource[InstalledDeployment]] = DEPLOYMENTS.read_as(InstalledDeployment)


async def find_installed_components(client: Client, namespaces: Sequence[str]) -> InstalledComponents:
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
    components = list(find_components(deployments))
    leases: list[Lease] = []
    for namespace in sorted({component.namespace for component in components}):
        try:
            leases += (await client.list_all(LEASES, namespace)).items
        except KubeError as error:
            problems.append(f"Leases in namespace {namespace}: {describe_error(error)}")
    installed = (_describe(component, by_key[component.namespace, component.name], leases) for component in components)
    return InstalledComponents(server, tuple(installed), tuple(problems))


async def _list_deployments(client: Client, namespace: str, problems: list[str]) -> list[InstalledDeployment]:
    """The Deployments of a namespace; where all together may not be listed, those of kube-system."""
    try:
        return list((await client.list_all(_DEPLOYMENTS, namespace)).items)
    except KubeError as error:
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        problems.append(f"Deployments {where}: {describe_error(error)}")
    return [] if namespace else await _list_deployments(client, NAMESPACE, problems)


def _describe(
    component: DumpedComponent, deployment: InstalledDeployment, leases: Iterable[Lease]
) -> InstalledComponent:
    holders = (lease.spec.holder_identity for lease in leases if lease.metadata.namespace == component.namespace)
    return InstalledComponent(
        component=component.component,
        namespace=component.namespace,
        deployment=component.name,
        image=component.image,
        version=read_image_tag(component.image),
        replicas=component.replicas,
        ready=deployment.status.ready_replicas,
        # A holder is named after its pod, and a pod of a Deployment after that.
        leader=next((holder for holder in holders if holder.startswith(f"{component.name}-")), ""),
    )


def read_image_tag(image: str) -> str:
    """The tag of an image, else its digest, else `latest`."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return tag or digest or "latest"
