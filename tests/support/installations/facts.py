"""Installations as a diagnosis finds them: healthy ones, to be changed where a test wants it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from trellis.diagnosis.checks.objects import BUFFER, HVPA_KIND, VPA, ConditionFact, ObjectFact
from trellis.diagnosis.checks.server import ServerFacts
from trellis.diagnosis.checks.usage_sources import MetricsApiFacts
from trellis.diagnosis.checks.webhook import ServiceBackend, WebhookCertificate, WebhookFacts
from trellis.diagnosis.installation import (
    LEASES,
    ComponentLease,
    ComponentPod,
    ComponentState,
    ComponentWorkload,
    ContainerRun,
    Installation,
    MetricsPage,
    PassMetrics,
    list_component_states,
)
from trellis.diagnosis.status import ClusterFacts

NOW = 1_784_000_000.0
DAY = 86_400.0
HASH = "5d4f8b7c9"
VERSION = "0.1.0"
# Of the components that replace upstream's, upstream's names.
NAMES = {"recommender": "vpa-recommender", "admission": "vpa-admission-controller", "updater": "vpa-updater"}


def pod_name(component: str, suffix: str = "x2x9z") -> str:
    return f"{NAMES.get(component, f'trellis-{component}')}-{HASH}-{suffix}"


def page(component: str, **changes: Any) -> MetricsPage:
    # The admission controller has no passes.
    passes = {} if component == "admission" else {component: PassMetrics(60.0, NOW - 20.0, 0.31, 0)}
    return replace(MetricsPage(VERSION, {component: True}, passes), **changes)


def pod(component: str, suffix: str = "x2x9z", **changes: Any) -> ComponentPod:
    usual = ComponentPod(
        pod_name(component, suffix),
        created=NOW - DAY,
        containers=(ContainerRun(component, f"trellis:{VERSION}"),),
        page=page(component),
    )
    return replace(usual, **changes)


def workload(component: str, **changes: Any) -> ComponentWorkload:
    usual = ComponentWorkload(
        namespace="kube-system",
        name=NAMES.get(component, f"trellis-{component}"),
        components=(component,),
        image=f"trellis:{VERSION}",
        version=VERSION,
        elects=component != "admission",
        account=NAMES.get(component, f"trellis-{component}"),
        priority_class="system-cluster-critical",
        pods=(pod(component),),
    )
    return replace(usual, **changes)


def broken(component: str, container: ContainerRun, **changes: Any) -> ComponentWorkload:
    """A workload whose only pod is not ready because of a container."""
    pods = (pod(component, is_ready=False, containers=(container,), page=None),)
    return workload(component, ready=0, pods=pods, **changes)


def upstream(component: str, **changes: Any) -> ComponentWorkload:
    image = f"registry.k8s.io/autoscaling/vpa-{component}:1.7.0"
    usual = workload(component, is_ours=False, image=image, version="1.7.0", elects=False)
    return replace(usual, **changes)


def lease(component: str, **changes: Any) -> ComponentLease:
    usual = ComponentLease("kube-system", LEASES[component], component, f"{pod_name(component)}_6f1e", NOW - 2.0, 15.0)
    return replace(usual, **changes)


def installation(*components: str) -> Installation:
    """Components that work, as Deployments of their own."""
    chosen = components or ("recommender", "admission", "updater")
    return Installation(tuple(map(workload, chosen)), tuple(map(lease, chosen)))


def state(component: str, *workloads: ComponentWorkload, leases: tuple[ComponentLease, ...] = ()) -> ComponentState:
    """The state of one component in an installation of these workloads."""
    states = list_component_states(Installation(workloads, leases), NOW)
    return next(item for item in states if item.component == component)


def webhook(**changes: Any) -> WebhookFacts:
    usual = WebhookFacts(
        exists=True,
        is_registered=True,
        failure_policy="Ignore",
        backend=ServiceBackend("kube-system", "vpa-webhook", 2),
        authority_ends=NOW + 3650 * DAY,
        certificate=WebhookCertificate(NOW + 74 * DAY, "Secret kube-system/trellis-admission-certificates"),
    )
    return replace(usual, **changes)


def conditions(**statuses: str) -> dict[str, ConditionFact]:
    return {name: ConditionFact(status, f"{name}Reason", f"message of {name}") for name, status in statuses.items()}


def vpa(name: str = "web", mode: str = "InPlaceOrRecreate", **statuses: str) -> ObjectFact:
    return ObjectFact("shop", name, conditions(**(statuses or {"RecommendationProvided": "True"})), mode, age=DAY)


def cluster(**changes: Any) -> ClusterFacts:
    """A healthy cluster with three components and some objects."""
    usual = ClusterFacts(
        NOW,
        ServerFacts("v1.36.3", (1, 36), skew=0.0),
        installation(),
        webhook(),
        objects={VPA: (vpa(), vpa("api")), HVPA_KIND: (), BUFFER: ()},
        metrics_api=MetricsApiFacts(True, "", 3, 40),
    )
    return replace(usual, **changes)
