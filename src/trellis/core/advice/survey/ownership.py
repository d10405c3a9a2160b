"""Finds the workload that a pod is part of: the one whose template a person would change.

Controllers are followed upwards. A ReplicaSet that has a controller, whatever its kind, such as a Rollout, is not the
one to change. Any other well-known kind that a controller of an unknown kind made has the template itself: an operator
makes StatefulSets and has no template of its own. A pod made by an unknown kind belongs to that one.

Where a ReplicaSet or a Job cannot be read, its name and the labels of the pod tell which workload made it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from trellis.api.kube.observed_pods import ObservedPod
from trellis.core.advice.survey.scope import SurveyObjects, WorkloadFilter, WorkloadObject
from trellis.core.cluster.owners import TargetRef, build_controller_ref

POD: Final = "Pod"
JOB: Final = "Job"
_NODE: Final = "Node"
_REPLICA_SET: Final = "ReplicaSet"
_LONGEST: Final = 10
# What a Deployment and a Rollout of Argo call the hash with which the names of their ReplicaSets end.
_HASHES: Final = {
    "rollouts-pod-template-hash": ("argoproj.io/v1alpha1", "Rollout"),
    "pod-template-hash": ("apps/v1", "Deployment"),
}
_HASHED: Final = re.compile(r"(.+)-[bcdfghjklmnpqrstvwxz2456789]{6,10}")
_SCHEDULED: Final = re.compile(r"(.+)-[0-9]{8,10}")
# Random parts of names have no vowels, and neither 0, 1 nor 3: apimachinery's `rand.String`.
_RANDOM: Final = "[bcdfghjklmnpqrstvwxz2456789]"
# The longest ending first; names of a ReplicaSet's and of a DaemonSet's pods look alike.
_POD_NAMES: Final = (
    ("CronJob", re.compile(rf"(.+)-[0-9]{{8,10}}-{_RANDOM}{{5}}")),
    ("Deployment", re.compile(rf"(.+)-{_RANDOM}{{6,10}}-{_RANDOM}{{5}}")),
    ("DaemonSet", re.compile(rf"(.+)-{_RANDOM}{{5}}")),
    ("StatefulSet", re.compile(r"(.+)-[0-9]+")),
)


def guess_workload(pod: str) -> tuple[str, str] | None:
    """The kind and the name of the workload that a pod of this name is probably of; None if the name does not tell."""
    matches = ((kind, pattern.fullmatch(pod)) for kind, pattern in _POD_NAMES)
    return next(((kind, match[1]) for kind, match in matches if match is not None), None)


class WorkloadOwners:
    """The objects that control pods, by name."""

    def __init__(self, survey_objects: SurveyObjects, workload_filter: WorkloadFilter) -> None:
        self._objects = {
            (kind, item.metadata.namespace, item.metadata.name): item
            for objects_by_kind in (survey_objects.intermediate_owners, survey_objects.workloads)
            for kind, objects in objects_by_kind.items()
            for item in objects
        }
        self._labels = workload_filter.job_labels

    def find(self, target: TargetRef) -> WorkloadObject | None:
        """The object, if it is of a well-known kind and could be read."""
        return self._objects.get((target.kind, target.namespace, target.name))

    def find_workload(self, pod: ObservedPod) -> tuple[TargetRef, str]:
        """The workload of a pod, and the label with its value if it is a group of Jobs."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        at = build_controller_ref(namespace, pod.metadata.controller)
        if at is None or at.kind == _NODE:
            return TargetRef(namespace, "v1", POD, pod.metadata.name), ""
        return self.find_group(self._find_topmost(at, labels), labels)

    def find_group(self, target: TargetRef, labels: Mapping[str, str]) -> tuple[TargetRef, str]:
        """The group of Jobs that one of them is in, or itself."""
        if target.kind != JOB:
            return target, ""
        job = self.find(target)
        job_labels: Mapping[str, str] = getattr(job.metadata, "labels", {}) if job else {}
        for key in self._labels:
            if value := job_labels.get(key) or labels.get(key):
                return TargetRef(target.namespace, target.api_version, JOB, value), f"{key}={value}"
        return target, ""

    def _find_topmost(self, at: TargetRef, labels: Mapping[str, str]) -> TargetRef:
        for _ in range(_LONGEST):
            owned = self.find(at)
            if owned is None:
                return _guess_owner(at, labels)
            above = build_controller_ref(at.namespace, owned.metadata.controller)
            if above is None or not (above.is_well_known or at.kind == _REPLICA_SET):
                return at
            at = above
        return at


def _guess_owner(at: TargetRef, labels: Mapping[str, str]) -> TargetRef:
    """Who made a ReplicaSet or a Job of which only the name is known, where that tells."""
    if at.kind == _REPLICA_SET:
        for label, (api_version, kind) in _HASHES.items():
            ending = f"-{labels[label]}" if label in labels else ""
            if ending and at.name.endswith(ending):
                return TargetRef(at.namespace, api_version, kind, at.name.removesuffix(ending))
        if not labels and (form := _HASHED.fullmatch(at.name)):
            return TargetRef(at.namespace, "apps/v1", "Deployment", form[1])
    if at.kind == JOB and (form := _SCHEDULED.fullmatch(at.name)):
        return TargetRef(at.namespace, "batch/v1", "CronJob", form[1])
    return at
