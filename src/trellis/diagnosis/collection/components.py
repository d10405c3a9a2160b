"""Collects the installation: Deployments that run components, their pods with metrics and last errors, and Leases."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from trellis.api.kube.coordination import ConfigMap
from trellis.api.kube.meta import LabelSelector
from trellis.diagnosis.collection.metrics_pages import read_page
from trellis.diagnosis.collection.reader import FactReader
from trellis.diagnosis.installation import (
    ComponentLease,
    ComponentPod,
    ComponentWorkload,
    ContainerRun,
    Installation,
    find_component_of_lease,
)
from trellis.diagnosis.slices import (
    RUN_DEPLOYMENTS,
    RUN_PODS,
    RunContainerStatus,
    RunDeployment,
    RunPod,
)
from trellis.diagnosis.unread import Unread
from trellis.kube.resources import CONFIG_MAPS, LEASES
from trellis.kube.transport.requests import Request
from trellis.runtime.manager.settings import ADMISSION, HVPA, NODES
from trellis.runtime.telemetry.logs import redact
from trellis.sources.cluster.component_flags import read_flags
from trellis.sources.cluster.components import (
    NAMESPACES,
    choose_running,
    find_component,
    find_image_name,
    runs_several,
)
from trellis.sources.cluster.installed_components import read_image_tag

_PROGRAM: Final = "trellis"
# The ports of metrics, by component; `trellis run` has its own. A port of that name, or the flag, comes first.
_PORTS: Final = {"recommender": 8942, "updater": 8943, ADMISSION: 8944, HVPA: 8945, "buffers": 8946, NODES: 8947}
_RUN_PORT: Final = 8940
_PORT_NAME: Final = "prometheus"
_LOG_LINES: Final = 30
_LOG_LENGTH: Final = 300
_ERROR_WORDS: Final = re.compile(
    r"\b(error|fatal|panic|exception|forbidden|denied|refused|invalid)\b|^trellis: ", re.IGNORECASE
)
_CRASHED: Final = 3
_FAILURE: Final = "ReplicaFailure"
_PROGRESS: Final = "Progressing"


async def collect_installation(reader: FactReader, namespace: str) -> Installation:
    """Everything of the components, in one namespace or in all."""
    unread: list[Unread] = []
    found = [
        (workload, deployment)
        for deployment in await _list_deployments(reader, namespace, unread)
        if (workload := await _read_workload(reader, deployment)) is not None
    ]
    workloads = await asyncio.gather(*(_add_pods(reader, workload, deployment) for workload, deployment in found))
    leases = await _list_leases(reader, {workload.namespace for workload in workloads}, namespace, unread)
    return Installation(tuple(workloads), tuple(leases), tuple(unread))


async def _list_leases(
    reader: FactReader, homes: set[str], namespace: str, unread: list[Unread]
) -> list[ComponentLease]:
    """The Leases of components, where components run and where they do by default."""
    leases: list[ComponentLease] = []
    refused: list[Unread] = []
    for place in sorted(homes | ({namespace} if namespace else set(NAMESPACES))):
        listed = await reader.list(LEASES, place, what=f"Leases in {place}")
        if isinstance(listed, Unread):
            # Components elsewhere have their Leases there.
            refused += [listed] if place in homes or not homes else []
            continue
        for lease in listed:
            component = find_component_of_lease(lease.metadata.name)
            spec = lease.spec
            if component:
                renewed = spec.renew_time.timestamp() if spec.renew_time is not None else math.nan
                seconds = float(spec.lease_duration_seconds or 60)
                leases.append(
                    ComponentLease(place, lease.metadata.name, component, spec.holder_identity, renewed, seconds)
                )
    # Without components, one of the namespaces that they may be in says enough.
    unread += refused if homes else refused[:1]
    return leases


async def _list_deployments(reader: FactReader, namespace: str, unread: list[Unread]) -> list[RunDeployment]:
    """Deployments of one namespace; of all, or of the usual namespaces where all may not be listed."""
    listed = await reader.list(RUN_DEPLOYMENTS, namespace, what=f"Deployments in {namespace or 'all namespaces'}")
    if not isinstance(listed, Unread):
        return list(listed)
    unread.append(listed)
    usual = [await reader.list(RUN_DEPLOYMENTS, place) for place in (() if namespace else NAMESPACES)]
    return [deployment for found in usual if not isinstance(found, Unread) for deployment in found]


async def _read_workload(reader: FactReader, deployment: RunDeployment) -> ComponentWorkload | None:
    """The components of a Deployment; None if it runs none."""
    spec = deployment.spec.template.spec
    for container in spec.containers:
        is_process = runs_several(container)
        component = "" if is_process else _rename(find_component(container.words, container.image))
        if not component and not is_process:
            continue
        namespace = deployment.metadata.namespace
        flags = await read_flags(container, spec.volumes, partial(_read_config_map, reader, namespace))
        elects = flags.get("leader-elect", "true" if is_process or component == NODES else "false") != "false"
        return ComponentWorkload(
            namespace=namespace,
            name=deployment.metadata.name,
            components=choose_running(flags) if is_process else (component,),
            is_ours=_is_ours(container.words, container.image),
            image=container.image,
            version=_find_version(deployment, container.image),
            wanted=1 if deployment.spec.replicas is None else deployment.spec.replicas,
            ready=deployment.status.ready_replicas,
            flags=flags,
            elects=elects,
            account=spec.service_account_name or "default",
            priority_class=spec.priority_class_name,
            failure=_find_condition(deployment, _FAILURE, "True"),
            stuck=_find_condition(deployment, _PROGRESS, "False"),
        )
    return None


async def _read_config_map(reader: FactReader, namespace: str, name: str) -> ConfigMap | None:
    found = await reader.get(CONFIG_MAPS, name, namespace)
    return None if isinstance(found, Unread) else found


def _find_condition(deployment: RunDeployment, name: str, status: str) -> str:
    """The message of a condition that has a status; empty if it has not."""
    conditions = (item for item in deployment.status.conditions if (item.type, item.status) == (name, status))
    return _shorten(next((item.message for item in conditions), ""))


def _rename(component: str) -> str:
    return ADMISSION if component == "admission-controller" else component


def _is_ours(words: Sequence[str], image: str) -> bool:
    return any(word.rpartition("/")[2] == _PROGRAM for word in words) or _PROGRAM in find_image_name(image)


def _find_version(deployment: RunDeployment, image: str) -> str:
    """The tag of the image; where that names no version, the label of the pods."""
    tag = read_image_tag(image)
    label = deployment.spec.template.metadata.labels.get("app.kubernetes.io/version", "")
    return label if label and not tag[:2].strip("v").isdigit() else tag


async def _add_pods(reader: FactReader, workload: ComponentWorkload, deployment: RunDeployment) -> ComponentWorkload:
    """The workload with its pods, their metrics and last errors."""
    listed = await reader.list(RUN_PODS, workload.namespace, label_selector=_format_selector(deployment.spec.selector))
    if isinstance(listed, Unread):
        return replace(workload, pods=listed)
    current = [pod for pod in listed if pod.metadata.deletion_timestamp is None]
    pods = await asyncio.gather(*(_read_pod(reader, workload, deployment, pod) for pod in current))
    pages = [pod.page for pod in pods if pod.page is not None and not isinstance(pod.page, Unread)]
    version = next((page.version for page in pages if page.version), workload.version)
    components = workload.components
    served = {component for page in pages for component in page.leads}
    if len(components) > 1 and served:
        components = tuple(component for component in components if component in served or component == ADMISSION)
    return replace(workload, pods=tuple(pods), version=version, components=components)


def _format_selector(selector: LabelSelector | None) -> str:
    if selector is None:
        return ""
    return ",".join(f"{key}={value}" for key, value in selector.match_labels.items())


async def _read_pod(
    reader: FactReader, workload: ComponentWorkload, deployment: RunDeployment, pod: RunPod
) -> ComponentPod:
    conditions = {condition.type: condition for condition in pod.status.conditions}
    is_ready = "Ready" in conditions and conditions["Ready"].status == "True"
    scheduled = conditions.get("PodScheduled")
    unscheduled = scheduled.message if scheduled is not None and scheduled.status == "False" else ""
    containers = [
        await _read_container(reader, workload.namespace, pod.metadata.name, status)
        for status in pod.status.container_statuses
    ]
    page = None
    if is_ready:
        page = await read_page(reader, workload.namespace, pod.metadata.name, _find_port(workload, deployment))
    created = pod.metadata.creation_timestamp
    return ComponentPod(
        pod.metadata.name,
        is_ready,
        _shorten(unscheduled),
        created.timestamp() if created is not None else 0.0,
        tuple(containers),
        page,
    )


def _find_port(workload: ComponentWorkload, deployment: RunDeployment) -> int:
    address = workload.flags.get("address", "").rpartition(":")[2]
    if address.isdigit():
        return int(address)
    for container in deployment.spec.template.spec.containers:
        for port in container.ports:
            if port.name == _PORT_NAME:
                return port.container_port
    return _PORTS.get(workload.components[0], _RUN_PORT) if len(workload.components) == 1 else _RUN_PORT


async def _read_container(reader: FactReader, namespace: str, pod: str, status: RunContainerStatus) -> ContainerRun:
    waiting, ended = status.state.waiting, status.state.terminated or status.last_state.terminated
    crashes = not status.ready and (
        (waiting is not None and waiting.reason == "CrashLoopBackOff") or status.restart_count >= _CRASHED
    )
    error = ended.message if ended is not None else ""
    return ContainerRun(
        name=status.name,
        image=status.image,
        is_ready=status.ready,
        waiting=waiting.reason if waiting is not None else "",
        waiting_message=_shorten(waiting.message) if waiting is not None else "",
        exit_code=ended.exit_code if ended is not None else None,
        exit_reason=ended.reason if ended is not None else "",
        restarts=status.restart_count,
        last_error=_shorten(error) or (await _read_last_error(reader, namespace, pod, status.name) if crashes else ""),
    )


async def _read_last_error(reader: FactReader, namespace: str, pod: str, container: str) -> str:
    """The last line of the previous log that looks like an error, else the last line."""
    for previous in ("true", "false"):
        query = (("container", container), ("tailLines", str(_LOG_LINES)), ("previous", previous))
        request = Request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}/log", query, {"Accept": "*/*"})
        response = await reader.send(request, f"log of {pod}", resource="pods/log", namespace=namespace)
        if not isinstance(response, Unread) and response.body.strip():
            return find_error_line(response.body.decode("utf-8", "replace"))
    return ""


def find_error_line(log: str) -> str:
    """The last line of a log that looks like an error, else its last line; without credentials."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR_WORDS.search(line)]
    return _shorten(redact((errors or lines or [""])[-1]))


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LOG_LENGTH else f"{line[: _LOG_LENGTH - 3]}..."
