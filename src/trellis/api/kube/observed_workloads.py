"""Smaller slices of workloads: identity, controller, selector and replica count, without the pod template.

A cluster keeps up to ten old ReplicaSets per Deployment, and each has a whole pod template, which nothing reads from
these slices. Of a counted workload `generation` shows that its template may have changed; the template itself is read
when it is needed.
"""

from __future__ import annotations

from trellis.api.kube.meta import LabelSelector, OwnerReference, find_controller
from trellis.api.kube.slices import NOTHING, Labels, Slice


class OwnedMeta(Slice, frozen=True):
    """As much of `metadata` as names an object and its controller."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that keeps this object as it should be, if there is one."""
        return find_controller(self.owner_references)


class ObservedObject(Slice, frozen=True):
    """Any object of which little more than its name and its owners is read."""

    metadata: OwnedMeta = OwnedMeta()


class SelectingSpec(Slice, frozen=True):
    """The spec of whatever says which pods are its own."""

    selector: LabelSelector | None = None


class ObservedWorkload(ObservedObject, frozen=True):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job."""

    spec: SelectingSpec = SelectingSpec()


class PlainlySelectingSpec(Slice, frozen=True):
    """A selector from before there were selectors: a map of labels."""

    selector: Labels = NOTHING


class ObservedReplicationController(ObservedObject, frozen=True):
    """A ReplicationController."""

    spec: PlainlySelectingSpec = PlainlySelectingSpec()


class LabelledMeta(Slice, frozen=True):
    """The labels that a template gives to its pods."""

    labels: Labels = NOTHING


class LabelledTemplate(Slice, frozen=True):
    """A pod template, of which the labels count."""

    metadata: LabelledMeta = LabelledMeta()


class ObservedJobSpec(Slice, frozen=True):
    """The spec of the Jobs that a CronJob makes."""

    template: LabelledTemplate = LabelledTemplate()


class ObservedJobTemplate(Slice, frozen=True):
    """The Job that a CronJob would make."""

    spec: ObservedJobSpec = ObservedJobSpec()


class ObservedCronJobSpec(Slice, frozen=True):
    """A CronJob's spec. It has no selector: the labels of its pod template are used as one."""

    job_template: ObservedJobTemplate = ObservedJobTemplate()


class ObservedCronJob(ObservedObject, frozen=True):
    """A CronJob."""

    spec: ObservedCronJobSpec = ObservedCronJobSpec()


class CountedMeta(OwnedMeta, frozen=True):
    """Name, owners and generation."""

    generation: int = 0


class CountedSpec(SelectingSpec, frozen=True):
    """A Job has `parallelism` where others have replicas."""

    parallelism: int | None = None


class CountedStatus(Slice, frozen=True):
    """How many replicas there are."""

    replicas: int = 0


class CountedWorkload(ObservedWorkload, frozen=True):
    """A Deployment, ReplicaSet, StatefulSet or Job."""

    metadata: CountedMeta = CountedMeta()
    spec: CountedSpec = CountedSpec()
    status: CountedStatus = CountedStatus()


class CountedReplicationController(ObservedReplicationController, frozen=True):
    """A ReplicationController."""

    metadata: CountedMeta = CountedMeta()
    spec: PlainlySelectingSpec = PlainlySelectingSpec()
    status: CountedStatus = CountedStatus()
