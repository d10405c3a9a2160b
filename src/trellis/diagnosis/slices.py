"""Slices of Kubernetes objects that only a diagnosis reads: images, endpoints, definitions, API services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import Condition, KubeObject, LabelSelector
from trellis.api.kube.slices import NOTHING, Labels, Slice
from trellis.api.kube.workloads import ReplicatedStatus
from trellis.kube.resources import DEPLOYMENTS, MUTATING_WEBHOOKS, PODS, Resource
from trellis.sources.cluster.component_flags import CommandContainer, ConfigVolume


class NamedPort(Slice, frozen=True):
    """A port of a container."""

    name: str = ""
    container_port: int = 0


class RunContainer(CommandContainer, frozen=True):
    """A container with what it runs, its name and its ports."""

    name: str = ""
    ports: tuple[NamedPort, ...] = ()


class RunPodSpec(Slice, frozen=True):
    """A pod's spec, as far as it says what runs under which account."""

    containers: tuple[RunContainer, ...] = ()
    volumes: tuple[ConfigVolume, ...] = ()
    service_account_name: str = ""
    priority_class_name: str = ""


class RunTemplateMeta(Slice, frozen=True):
    """The labels of a template."""

    labels: Labels = NOTHING


class RunTemplate(Slice, frozen=True):
    """A pod template."""

    metadata: RunTemplateMeta = RunTemplateMeta()
    spec: RunPodSpec = RunPodSpec()


class RunDeploymentSpec(Slice, frozen=True):
    """A Deployment's spec."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: RunTemplate = RunTemplate()


class RunDeployment(KubeObject, frozen=True):
    """A Deployment with what its pods run, and their readiness."""

    spec: RunDeploymentSpec = RunDeploymentSpec()
    status: ReplicatedStatus = ReplicatedStatus()


class WaitingContainer(Slice, frozen=True):
    """Why a container does not run."""

    reason: str = ""
    message: str = ""


class EndedContainer(Slice, frozen=True):
    """How a container ended; the message is what it wrote to its termination log."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class RunContainerState(Slice, frozen=True):
    """At most one of the states; none is running."""

    waiting: WaitingContainer | None = None
    terminated: EndedContainer | None = None


class RunContainerStatus(Slice, frozen=True):
    """A container's status, with its image."""

    name: str = ""
    image: str = ""
    ready: bool = False
    restart_count: int = 0
    state: RunContainerState = RunContainerState()
    last_state: RunContainerState = RunContainerState()


class RunPodStatus(Slice, frozen=True):
    """A pod's status."""

    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[RunContainerStatus, ...] = ()


class RunPod(KubeObject, frozen=True):
    """A pod of a component."""

    spec: RunPodSpec = RunPodSpec()
    status: RunPodStatus = RunPodStatus()


class EndpointConditions(Slice, frozen=True):
    """Whether an endpoint takes traffic; unset means ready."""

    ready: bool | None = None


class Endpoint(Slice, frozen=True):
    """A backend of a Service."""

    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()


class EndpointSlice(KubeObject, frozen=True):
    """The backends of a Service, or a part of them."""

    endpoints: tuple[Endpoint, ...] = ()


class ApiServiceStatus(Slice, frozen=True):
    """Whether the server behind an API group answers."""

    conditions: tuple[Condition, ...] = ()


class ApiService(KubeObject, frozen=True):
    """The registration of an API group that another server has."""

    status: ApiServiceStatus = ApiServiceStatus()


class DefinitionVersion(Slice, frozen=True):
    """A version of a CRD; the schema is read as a document."""

    name: str = ""
    served: bool = False
    schema: Mapping[str, Any] = msgspec.field(default=NOTHING)


class DefinitionSpec(Slice, frozen=True):
    """The versions of a CRD."""

    versions: tuple[DefinitionVersion, ...] = ()


class DefinitionStatus(Slice, frozen=True):
    """Conditions, and the versions that objects may be stored in."""

    conditions: tuple[Condition, ...] = ()
    stored_versions: tuple[str, ...] = ()


class ResourceDefinition(KubeObject, frozen=True):
    """A CustomResourceDefinition."""

    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()


class WebhookSecret(KubeObject, frozen=True):
    """A Secret of which only the certificates are used. Its data is base64, as on the wire."""

    data: Labels = NOTHING

    def __repr__(self) -> str:
        return f"WebhookSecret({self.metadata.namespace}/{self.metadata.name})"


RUN_DEPLOYMENTS: Final[Resource[RunDeployment]] = DEPLOYMENTS.read_as(RunDeployment)
RUN_PODS: Final[Resource[RunPod]] = PODS.read_as(RunPod)
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True, EndpointSlice)
API_SERVICES: Final = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", False, ApiService)
DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False, ResourceDefinition
)
WEBHOOK_SECRETS: Final = Resource("", "v1", "secrets", "Secret", True, WebhookSecret)
VALIDATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
    MUTATING_WEBHOOKS.struct,
)
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, KubeObject)
NODE_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, KubeObject)
