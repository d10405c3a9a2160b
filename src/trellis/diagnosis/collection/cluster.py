"""Collects facts about the cluster itself: API server, CRDs, metrics API, Prometheus, and the namespace."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

from trellis.api.kube.meta import KubeObject
from trellis.api.registry import KINDS
from trellis.base.errors import KubeError, UnreadableObject
from trellis.diagnosis.checks.definitions import DefinitionFacts, DefinitionsByName
from trellis.diagnosis.checks.namespace import NamespaceFacts
from trellis.diagnosis.checks.server import ServerFacts
from trellis.diagnosis.checks.usage_sources import (
    API_SERVICE,
    MetricsApiFacts,
    PrometheusFacts,
    unreachable_from_here,
)
from trellis.diagnosis.collection.metrics_pages import parse_samples
from trellis.diagnosis.collection.reader import FactReader
from trellis.diagnosis.installation import Installation
from trellis.diagnosis.slices import API_SERVICES, DEFINITIONS, NODE_METRICS, PRIORITY_CLASSES, ResourceDefinition
from trellis.diagnosis.unread import Unread, build_unread
from trellis.kube.discovery import ServerVersion
from trellis.kube.resources import LIMIT_RANGES, NAMESPACES, POD_METRICS, PODS, RESOURCE_QUOTAS
from trellis.kube.transport import responses
from trellis.kube.transport.requests import ListOptions, Request, build_raw_get
from trellis.runtime.manager.settings import RECOMMENDER

_POD_USAGE: Final = POD_METRICS.read_as(KubeObject)
_SERVICE_PARTS: Final = 2


async def collect_server(reader: FactReader, clock: float, *, detailed: bool = False) -> ServerFacts:
    """The API server; raises `KubeError` if it does not answer. `detailed` adds gates."""
    response = await reader.client.send(build_raw_get("/version"))
    version = responses.read_as(response, ServerVersion)
    date = response.headers.get("date", "")
    resizes: bool | Unread
    try:
        resizes = (await reader.client.discover()).resizes_pods
    except (KubeError, UnreadableObject) as error:
        resizes = build_unread(error, "kinds that the API server serves")
    return ServerFacts(
        version=version.git_version,
        number=version.number,
        resizes_pods=resizes,
        gates=await _read_gates(reader) if detailed else {},
        skew=_read_skew(date, clock),
    )


def _read_skew(date: str, clock: float) -> float | None:
    if not date:
        return None
    try:
        return parsedate_to_datetime(date).timestamp() - clock
    except ValueError:
        return None


async def _read_gates(reader: FactReader) -> Mapping[str, bool] | Unread:
    """Feature gates in the metrics of the API server: `kubernetes_feature_enabled`."""
    request = build_raw_get("/metrics", "text/plain")
    response = await reader.send(request, "feature gates")
    if isinstance(response, Unread):
        return response
    samples = parse_samples(response.body.decode("utf-8", "replace"))
    return {labels["name"]: value > 0 for name, labels, value in samples if name == "kubernetes_feature_enabled"}


async def collect_definitions(reader: FactReader) -> DefinitionsByName | Unread:
    """The CRDs of all kinds."""
    definitions: dict[str, DefinitionFacts | None] = {}
    for kind in KINDS:
        name = f"{kind.plural}.{kind.group}"
        stored = await reader.get(DEFINITIONS, name, what="CRDs")
        if isinstance(stored, Unread):
            return stored
        definitions[name] = None if stored is None else _read_definition(name, stored)
    return definitions


def _read_definition(name: str, stored: ResourceDefinition) -> DefinitionFacts:
    established = next((item for item in stored.status.conditions if item.type == "Established"), None)
    rejected = next((item.message for item in stored.status.conditions if item.status == "False"), "")
    return DefinitionFacts(
        name,
        is_established=established is not None and established.status == "True",
        stored_versions=stored.status.stored_versions,
        schemas={
            version.name: version.schema.get("openAPIV3Schema", {})
            for version in stored.spec.versions
            if version.served
        },
        reason=rejected,
    )


async def collect_metrics_api(reader: FactReader, *, with_pods: bool = False) -> MetricsApiFacts:
    """The metrics API: registered, available, answering. Usage of all pods is one answer, of 20 MB for 50,000."""
    service = await reader.get(API_SERVICES, API_SERVICE, what="APIService of the metrics API")
    message, available = "", service if isinstance(service, Unread) else None if service is None else False
    if service is not None and not isinstance(service, Unread):
        condition = next((item for item in service.status.conditions if item.type == "Available"), None)
        available = condition is not None and condition.status == "True"
        message = "" if condition is None else condition.message or condition.reason
    if available is None:
        return MetricsApiFacts(None)
    nodes = await reader.list(NODE_METRICS, what="usage of nodes")
    pods = await reader.list(_POD_USAGE, what="usage of pods") if with_pods or isinstance(nodes, Unread) else None
    return MetricsApiFacts(
        available,
        message,
        nodes if isinstance(nodes, Unread) else len(nodes),
        pods if pods is None or isinstance(pods, Unread) else len(pods),
        await _has_running_pods(reader) if pods == () or nodes == () else True,
    )


async def _has_running_pods(reader: FactReader) -> bool:
    """Whether any pod runs, of which there should be usage; not if that may not be read."""
    selection = ListOptions(field_selector="status.phase=Running")
    try:
        async for page in reader.client.list_pages(PODS.as_metadata(), limit=1, **selection):
            return bool(page.items)
    except (KubeError, UnreadableObject):
        return False
    return False


async def collect_prometheus(reader: FactReader, installation: Installation) -> PrometheusFacts | None:
    """The Prometheus that a recommender's flags name, asked through the proxy of its Service."""
    recommenders = [workload for workload in installation.workloads if RECOMMENDER in workload.components]
    flags = (workload.find_flag("prometheus-address", RECOMMENDER) for workload in recommenders)
    configured = next(filter(None, flags), "")
    if not configured:
        return None
    url = urlsplit(configured)
    parts = (url.hostname or "").split(".")
    is_service = len(parts) >= _SERVICE_PARTS and (len(parts) == _SERVICE_PARTS or parts[2] == "svc")
    if not is_service:
        return unreachable_from_here(configured)
    service, namespace = parts[0], parts[1]
    port = url.port or (443 if url.scheme == "https" else 80)
    scheme = "https:" if url.scheme == "https" else ""
    path = f"/api/v1/namespaces/{namespace}/services/{scheme}{service}:{port}/proxy{url.path.rstrip('/')}"
    request = Request("GET", f"{path}/api/v1/query", (("query", "vector(1)"),), {"Accept": "application/json"})
    answer = await reader.send(request, f"Prometheus {configured}", resource="services/proxy", namespace=namespace)
    if not isinstance(answer, Unread):
        return PrometheusFacts(configured)
    return PrometheusFacts(configured, answer if answer.is_forbidden else answer.why)


async def collect_namespace(reader: FactReader, name: str, *, is_chosen: bool) -> NamespaceFacts:
    """The namespace of an installation. `is_chosen` is whether the user named it."""
    namespace = await reader.get(NAMESPACES, name)
    classes = await reader.list(PRIORITY_CLASSES, what="priority classes")
    unread = isinstance(namespace, Unread)
    return NamespaceFacts(
        name,
        None if unread else namespace is not None,
        {} if namespace is None or isinstance(namespace, Unread) else namespace.metadata.labels,
        await reader.list(RESOURCE_QUOTAS, name),
        await reader.list(LIMIT_RANGES, name),
        classes if isinstance(classes, Unread) else frozenset(item.metadata.name for item in classes),
        is_chosen=is_chosen,
    )
