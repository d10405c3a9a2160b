"""Which workloads are there, what do their containers ask for now, and whose pods were whose?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.kube.pods import PodTemplateSpec
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.workloads import CronJob, DaemonSet, Job
from trellis.core.advice.choice import Choice
from trellis.core.advice.current import current_sizes, template_sizes
from trellis.core.advice.hpas import surveyed_hpa
from trellis.core.advice.present import Present, Workload
from trellis.core.advice.surveyed import SurveyedContainer, SurveyedHpa, SurveyedWorkload
from trellis.core.advice.whose import JOB, Whose
from trellis.core.model.keys import Key
from trellis.core.model.ooms import OomKill, observed
from trellis.core.model.owners import TargetRef
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges

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


class Found(msgspec.Struct, frozen=True):
    """Workloads by key, which `key_of_workload` makes; whose the pods are and were, by namespace and name."""

    workloads: Mapping[Key, SurveyedWorkload]
    pods: Mapping[Key, str]
    kills: tuple[OomKill, ...]

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Where there are workloads."""
        return tuple(sorted({namespace for namespace, _ in self.workloads}))

    def of(self, namespace: str) -> dict[str, SurveyedWorkload]:
        """The workloads of a namespace, by the second half of their keys."""
        return {name: each for (where, name), each in self.workloads.items() if where == namespace}


class _Making(msgspec.Struct):
    """One workload, while its pods and objects are still being found."""

    target: TargetRef
    group: str
    pods: list[ObservedPod]
    objects: list[Workload]


def find_workloads(present: Present, choice: Choice) -> Found:
    """The workloads that are asked about; pods of others are nobody's."""
    whose = Whose(present, choice)
    making: dict[Key, _Making] = {}
    owner: dict[Key, str] = {}
    for pod, is_here in _pods(present):
        if not choice.covers(pod.metadata.namespace):
            continue
        target, group = whose.of(pod)
        key = (target.namespace, key_of_workload(target, group))
        owner[pod.metadata.namespace, pod.metadata.name] = key[1]
        made = making.setdefault(key, _Making(target, group, [], []))
        if is_here:
            made.pods.append(pod)
    for target, each in _objects(present, choice):
        grouped, group = whose.grouped(target, {})
        key = (target.namespace, key_of_workload(grouped, group))
        if key in making or target.kind != JOB or group:
            making.setdefault(key, _Making(grouped, group, [], [])).objects.append(each)
    others = _Others.of(present)
    found = {
        key: _surveyed(made, others)
        for key, made in sorted(making.items())
        if choice.wants(made.target.kind, _labels(made)) and _is_there(made)
    }
    kills = _kills(present, lambda pod: _made_with(making[pod[0], owner[pod]]) if pod in owner else {})
    mine = {pod: key for pod, key in owner.items() if (pod[0], key) in found}
    namespaces = {namespace for namespace, _ in found}
    return Found(found, mine, tuple(kill for kill in kills if kill.namespace in namespaces))


def key_of_workload(target: TargetRef, group: str = "") -> str:
    """What a workload is called within its namespace: no object of Kubernetes can be."""
    return f"{target.kind}/{group or target.name}"


def _pods(present: Present) -> Iterator[tuple[ObservedPod, bool]]:
    yield from ((pod, True) for pod in present.pods)
    yield from ((pod, False) for pod in present.gone)


def _objects(present: Present, choice: Choice) -> Iterator[tuple[TargetRef, Workload]]:
    """Those that nobody made, in namespaces that are asked about."""
    for kind, found in present.workloads.items():
        for each in found:
            namespace, name = each.metadata.namespace, each.metadata.name
            controller = each.metadata.controller
            is_made = controller is not None and (controller.kind in _API_VERSIONS or kind == "ReplicaSet")
            if not is_made and choice.covers(namespace):
                yield TargetRef(namespace, _API_VERSIONS.get(kind, ""), kind, name), each


def _kills(present: Present, made_with: Callable[[Key], Mapping[str, float]]) -> Iterator[OomKill]:
    """All kills. A pod that was resized since may have had less then than it has now: what it was made with counts.

    Where that is not known either, it is the usage around the kill alone.
    """
    resized = {(pod.metadata.namespace, pod.metadata.name) for pod in present.pods if pod.metadata.generation > 1}
    for kill in (*present.kills, *(kill for pod in present.pods for kill in observed(None, pod))):
        if (kill.namespace, kill.pod) in resized:
            had = made_with((kill.namespace, kill.pod)).get(kill.container, 0.0)
            # Of NaN, which is not known, the first stays.
            yield msgspec.structs.replace(kill, memory=min(had, kill.memory))
        else:
            yield kill


def _made_with(made: _Making) -> Mapping[str, float]:
    """The memory that containers request by their template, as far as it is known."""
    template = _newest_template(made.objects)
    sizes = template_sizes(template) if template is not None else ()
    return {each.name: each.request.memory for each in sizes if each.request.memory >= 0}


def _is_there(made: _Making) -> bool:
    """A Job that is over and a pod that is gone are past, unless others like them may come."""
    running = any(pod.status.phase not in _ENDED for pod in made.pods)
    return running or bool(made.group) or (bool(made.objects) and made.target.kind != JOB)


def _labels(made: _Making) -> Mapping[str, str]:
    """Those that `kubectl get -l` would look at; without the object, those of a pod."""
    for each in (*made.objects, *made.pods):
        labels: Mapping[str, str] | None = getattr(each.metadata, "labels", None)
        if labels is not None:
            return labels
    return {}


class _Others(msgspec.Struct, frozen=True):
    """Who else sizes or scales a workload, by namespace, kind and name, and what bounds its namespace."""

    hpas: Mapping[tuple[str, str, str], list[SurveyedHpa]]
    vpas: Mapping[tuple[str, str, str], list[str]]
    limits: Mapping[str, NamespaceLimits]

    @classmethod
    def of(cls, present: Present) -> _Others:
        hpas: dict[tuple[str, str, str], list[SurveyedHpa]] = {}
        vpas: dict[tuple[str, str, str], list[str]] = {}
        for hpa in present.hpas:
            target = hpa.spec.scale_target_ref
            hpas.setdefault((hpa.metadata.namespace, target.kind, target.name), []).append(surveyed_hpa(hpa))
        for vpa in present.vpas:
            ref = vpa.spec.target_ref
            vpas.setdefault((vpa.metadata.namespace, ref.kind or "", ref.name or ""), []).append(vpa.metadata.name)
        ranges: dict[str, list[LimitRange]] = {}
        for each in present.limit_ranges:
            ranges.setdefault(each.metadata.namespace, []).append(each)
        return cls(hpas, vpas, {namespace: read_limit_ranges(some) for namespace, some in ranges.items()})


def _surveyed(made: _Making, others: _Others) -> SurveyedWorkload:
    target = made.target
    running = [pod for pod in made.pods if pod.status.phase not in _ENDED]
    place = (target.namespace, target.kind, target.name) if not made.group else ("", "", "")
    return SurveyedWorkload(
        namespace=target.namespace,
        api_version=target.api_version or _API_VERSIONS.get(target.kind, ""),
        kind=target.kind,
        name=target.name,
        pods=len(running),
        wanted=_wanted(made.objects),
        containers=_containers(running, made),
        hpas=tuple(others.hpas.get(place, ())),
        vpas=tuple(others.vpas.get(place, ())),
        labels=dict(_labels(made)),
        group=made.group,
        members=max(1, len(made.objects)) if made.group else 1,
        limits=others.limits.get(target.namespace, NamespaceLimits()),
    )


def _containers(running: Sequence[ObservedPod], made: _Making) -> tuple[SurveyedContainer, ...]:
    """As pods have them that run, or else as the template says, or else as pods had them that are over."""
    if running:
        return current_sizes(running)
    template = _newest_template(made.objects)
    return template_sizes(template) if template is not None else current_sizes(made.pods)


def _newest_template(objects: Sequence[Workload]) -> PodTemplateSpec | None:
    return next((template for each in reversed(objects) if (template := _template(each)) is not None), None)


def _template(workload: Workload) -> PodTemplateSpec | None:
    if isinstance(workload, CronJob):
        return workload.spec.job_template.spec.template
    template = getattr(getattr(workload, "spec", None), "template", None)
    return template if isinstance(template, PodTemplateSpec) else None


def _wanted(objects: Iterable[Workload]) -> int:
    for each in objects:
        if isinstance(each, DaemonSet):
            return each.status.desired_number_scheduled
        if not isinstance(each, CronJob | Job):
            replicas = getattr(getattr(each, "spec", None), "replicas", None)
            return replicas if isinstance(replicas, int) else -1
    return -1
