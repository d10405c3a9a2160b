"""Finds the workloads of a survey: their pods, the current requests of their containers, their HPAs and VPAs.

A container's size is the one that most pods of the workload have, resized ones included.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from trellis.api.kube.observed_pods import ObservedPod, ObservedResources
from trellis.api.kube.pods import PodTemplateSpec
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler, Metric
from trellis.api.kube.workloads import CronJob, DaemonSet, Job
from trellis.core.advice.survey.model import HpaTarget, ResourceAmount, SurveyedContainer, SurveyedHpa, SurveyedWorkload
from trellis.core.advice.survey.ownership import JOB, WorkloadOwners
from trellis.core.advice.survey.scope import SurveyObjects, WorkloadFilter, WorkloadObject
from trellis.core.cluster.oom_kill_detection import OomKill, find_oom_kills
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.pod_resources import parse_cpu_millicores, parse_memory_bytes, read_current_resources
from trellis.core.cluster.store import ObjectKey
from trellis.core.recommend.amounts import RESOURCES
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges

_Texts = tuple[str, str, str, str]


def read_current_sizes(pods: Sequence[ObservedPod]) -> tuple[SurveyedContainer, ...]:
    """The most frequent size of every container; among equally frequent ones, that of the newest pod."""
    sizes: dict[str, list[_Texts]] = {}
    sidecars: set[str] = set()
    for pod in sorted(pods, key=_get_creation_time):
        sidecars |= {container.name for container in pod.spec.init_containers if container.is_sidecar}
        for container in pod.spec.running:
            sizes.setdefault(container.name, []).append(_read_texts(read_current_resources(pod, container.name)))
    return tuple(_choose_usual_size(name, container_sizes, name in sidecars) for name, container_sizes in sizes.items())


def read_template_sizes(template: PodTemplateSpec) -> tuple[SurveyedContainer, ...]:
    """The sizes in a pod template."""
    spec = template.spec
    sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
    return tuple(
        SurveyedContainer(
            container.name,
            _parse_amount(container.resources.requests),
            _parse_amount(container.resources.limits),
            is_sidecar=container in sidecars,
        )
        for container in (*spec.containers, *sidecars)
    )


def _get_creation_time(pod: ObservedPod) -> float:
    created = pod.metadata.creation_timestamp
    return created.timestamp() if created else 0.0


def _choose_usual_size(name: str, sizes: Sequence[_Texts], is_sidecar: bool) -> SurveyedContainer:
    counts = Counter(reversed(sizes))  # the latest is the first of equals
    usual, usual_count = counts.most_common(1)[0]
    cpu, memory, cpu_limit, memory_limit = usual
    return SurveyedContainer(
        name,
        ResourceAmount(parse_cpu_millicores(cpu), parse_memory_bytes(memory)),
        ResourceAmount(parse_cpu_millicores(cpu_limit), parse_memory_bytes(memory_limit)),
        differing=len(sizes) - usual_count,
        is_sidecar=is_sidecar,
    )


def _read_texts(resources: ObservedResources) -> _Texts:
    requests, limits = resources.requests, resources.limits
    return requests.cpu, requests.memory, limits.cpu, limits.memory


def _parse_amount(texts: Mapping[str, str]) -> ResourceAmount:
    return ResourceAmount(parse_cpu_millicores(texts.get("cpu", "")), parse_memory_bytes(texts.get("memory", "")))


_READ: Final = {"cpu": parse_cpu_millicores, "memory": parse_memory_bytes}


def survey_hpa(hpa: HorizontalPodAutoscaler) -> SurveyedHpa:
    """The relevant fields of an HPA."""
    targets = [target for metric in hpa.spec.metrics if (target := _read_hpa_target(metric)) is not None]
    spec = hpa.spec
    return SurveyedHpa(
        name=hpa.metadata.name,
        least=1 if spec.min_replicas is None else spec.min_replicas,
        most=spec.max_replicas,
        replicas=hpa.status.current_replicas,
        targets=tuple(targets),
        others=len(spec.metrics) - len(targets),
    )


def _read_hpa_target(metric: Metric) -> HpaTarget | None:
    source = metric.resource or metric.container_resource
    if source is None or source.name not in RESOURCES:
        return None
    percent = source.target.average_utilization
    return HpaTarget(
        resource=source.name,
        utilization=math.nan if percent is None else float(percent),
        average=_READ[source.name](source.target.average_value),
        container=source.container,
    )


_ENDED: Final = ("Succeeded", "Failed")
_API_VERSIONS: Final = {
    "CronJob": "batch/v1",
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "ReplicaSet": "apps/v1",
    "ReplicationController": "v1",
    "StatefulSet": "apps/v1",
}


class WorkloadInventory(msgspec.Struct, frozen=True):
    """Workloads by key, which `key_of_workload` makes; whose the pods are and were, by namespace and name."""

    workloads: Mapping[ObjectKey, SurveyedWorkload]
    pods: Mapping[ObjectKey, str]
    kills: tuple[OomKill, ...]

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces with workloads."""
        return tuple(sorted({namespace for namespace, _ in self.workloads}))

    def list_workloads(self, namespace: str) -> dict[str, SurveyedWorkload]:
        """The workloads of a namespace, by the second half of their keys."""
        return {name: workload for (where, name), workload in self.workloads.items() if where == namespace}


class _WorkloadDraft(msgspec.Struct):
    """A workload while its pods and objects are collected."""

    target: TargetRef
    group: str
    pods: list[ObservedPod]
    objects: list[WorkloadObject]


def find_workloads(survey_objects: SurveyObjects, workload_filter: WorkloadFilter) -> WorkloadInventory:
    """The chosen workloads and their pods; pods of other workloads are left out."""
    owners = WorkloadOwners(survey_objects, workload_filter)
    drafts: dict[ObjectKey, _WorkloadDraft] = {}
    keys_by_pod: dict[ObjectKey, str] = {}
    for pod, exists in _list_pods(survey_objects):
        if not workload_filter.covers(pod.metadata.namespace):
            continue
        target, group = owners.find_workload(pod)
        key = (target.namespace, build_workload_key(target, group))
        keys_by_pod[pod.metadata.namespace, pod.metadata.name] = key[1]
        draft = drafts.setdefault(key, _WorkloadDraft(target, group, [], []))
        if exists:
            draft.pods.append(pod)
    for target, item in _list_objects(survey_objects, workload_filter):
        grouped, group = owners.find_group(target, {})
        key = (target.namespace, build_workload_key(grouped, group))
        if key in drafts or target.kind != JOB or group:
            drafts.setdefault(key, _WorkloadDraft(grouped, group, [], [])).objects.append(item)
    others = _OtherAutoscalers.from_objects(survey_objects)
    surveyed = {
        key: _build_workload(draft, others)
        for key, draft in sorted(drafts.items())
        if workload_filter.selects(draft.target.kind, _read_labels(draft)) and _is_current(draft)
    }
    kills = _list_kills(
        survey_objects,
        lambda pod: _read_template_memory(drafts[pod[0], keys_by_pod[pod]]) if pod in keys_by_pod else {},
    )
    surveyed_pods = {pod: key for pod, key in keys_by_pod.items() if (pod[0], key) in surveyed}
    namespaces = {namespace for namespace, _ in surveyed}
    return WorkloadInventory(surveyed, surveyed_pods, tuple(kill for kill in kills if kill.namespace in namespaces))


def build_workload_key(target: TargetRef, group: str = "") -> str:
    """The key of a workload within its namespace, which is no valid name of an object."""
    return f"{target.kind}/{group or target.name}"


def _list_pods(survey_objects: SurveyObjects) -> Iterator[tuple[ObservedPod, bool]]:
    yield from ((pod, True) for pod in survey_objects.pods)
    yield from ((pod, False) for pod in survey_objects.past_pods)


def _list_objects(
    survey_objects: SurveyObjects, workload_filter: WorkloadFilter
) -> Iterator[tuple[TargetRef, WorkloadObject]]:
    """Objects without a controller, in the chosen namespaces."""
    for kind, objects in survey_objects.workloads.items():
        for item in objects:
            namespace, name = item.metadata.namespace, item.metadata.name
            controller = item.metadata.controller
            is_made = controller is not None and (controller.kind in _API_VERSIONS or kind == "ReplicaSet")
            if not is_made and workload_filter.covers(namespace):
                yield TargetRef(namespace, _API_VERSIONS.get(kind, ""), kind, name), item


def _list_kills(
    survey_objects: SurveyObjects, read_template_memory: Callable[[ObjectKey], Mapping[str, float]]
) -> Iterator[OomKill]:
    """All kills. For a pod that was resized since, the memory of its template counts.

    Where that is not known either, it is the usage around the kill alone.
    """
    resized = {
        (pod.metadata.namespace, pod.metadata.name) for pod in survey_objects.pods if pod.metadata.generation > 1
    }
    for kill in (*survey_objects.kills, *(kill for pod in survey_objects.pods for kill in find_oom_kills(None, pod))):
        if (kill.namespace, kill.pod) in resized:
            memory = read_template_memory((kill.namespace, kill.pod)).get(kill.container, 0.0)
            # Of NaN, which is not known, the first stays.
            yield msgspec.structs.replace(kill, memory=min(memory, kill.memory))
        else:
            yield kill


def _read_template_memory(draft: _WorkloadDraft) -> Mapping[str, float]:
    """The memory that containers request by their template, as far as it is known."""
    template = _find_newest_template(draft.objects)
    sizes = read_template_sizes(template) if template is not None else ()
    return {container.name: container.request.memory for container in sizes if container.request.memory >= 0}


def _is_current(draft: _WorkloadDraft) -> bool:
    """Whether the workload exists: ended Jobs and deleted pods are past, unless they belong to a group."""
    running = any(pod.status.phase not in _ENDED for pod in draft.pods)
    return running or bool(draft.group) or (bool(draft.objects) and draft.target.kind != JOB)


def _read_labels(draft: _WorkloadDraft) -> Mapping[str, str]:
    """The labels of the first object; without one, those of a pod."""
    for item in (*draft.objects, *draft.pods):
        labels: Mapping[str, str] | None = getattr(item.metadata, "labels", None)
        if labels is not None:
            return labels
    return {}


class _OtherAutoscalers(msgspec.Struct, frozen=True):
    """HPAs and VPAs of workloads, by namespace, kind and name, and the limits of their namespaces."""

    hpas: Mapping[tuple[str, str, str], list[SurveyedHpa]]
    vpas: Mapping[tuple[str, str, str], list[str]]
    limits: Mapping[str, NamespaceLimits]

    @classmethod
    def from_objects(cls, survey_objects: SurveyObjects) -> _OtherAutoscalers:
        hpas: dict[tuple[str, str, str], list[SurveyedHpa]] = {}
        vpas: dict[tuple[str, str, str], list[str]] = {}
        for hpa in survey_objects.hpas:
            target = hpa.spec.scale_target_ref
            hpas.setdefault((hpa.metadata.namespace, target.kind, target.name), []).append(survey_hpa(hpa))
        for vpa in survey_objects.vpas:
            ref = vpa.spec.target_ref
            vpas.setdefault((vpa.metadata.namespace, ref.kind or "", ref.name or ""), []).append(vpa.metadata.name)
        ranges: dict[str, list[LimitRange]] = {}
        for limit_range in survey_objects.limit_ranges:
            ranges.setdefault(limit_range.metadata.namespace, []).append(limit_range)
        return cls(hpas, vpas, {namespace: read_limit_ranges(some) for namespace, some in ranges.items()})


def _build_workload(draft: _WorkloadDraft, others: _OtherAutoscalers) -> SurveyedWorkload:
    target = draft.target
    running = [pod for pod in draft.pods if pod.status.phase not in _ENDED]
    place = (target.namespace, target.kind, target.name) if not draft.group else ("", "", "")
    return SurveyedWorkload(
        namespace=target.namespace,
        api_version=target.api_version or _API_VERSIONS.get(target.kind, ""),
        kind=target.kind,
        name=target.name,
        pods=len(running),
        desired_replicas=_read_desired_replicas(draft.objects),
        containers=_read_containers(running, draft),
        hpas=tuple(others.hpas.get(place, ())),
        vpas=tuple(others.vpas.get(place, ())),
        labels=dict(_read_labels(draft)),
        group=draft.group,
        members=max(1, len(draft.objects)) if draft.group else 1,
        limits=others.limits.get(target.namespace, NamespaceLimits()),
    )


def _read_containers(running: Sequence[ObservedPod], draft: _WorkloadDraft) -> tuple[SurveyedContainer, ...]:
    """The containers of running pods, else of the template, else of ended pods."""
    if running:
        return read_current_sizes(running)
    template = _find_newest_template(draft.objects)
    return read_template_sizes(template) if template is not None else read_current_sizes(draft.pods)


def _find_newest_template(objects: Sequence[WorkloadObject]) -> PodTemplateSpec | None:
    return next((template for workload in reversed(objects) if (template := _get_template(workload)) is not None), None)


def _get_template(workload: WorkloadObject) -> PodTemplateSpec | None:
    if isinstance(workload, CronJob):
        return workload.spec.job_template.spec.template
    template = getattr(getattr(workload, "spec", None), "template", None)
    return template if isinstance(template, PodTemplateSpec) else None


def _read_desired_replicas(objects: Iterable[WorkloadObject]) -> int:
    for workload in objects:
        if isinstance(workload, DaemonSet):
            return workload.status.desired_number_scheduled
        if not isinstance(workload, CronJob | Job):
            replicas = getattr(getattr(workload, "spec", None), "replicas", None)
            return replicas if isinstance(replicas, int) else -1
    return -1
