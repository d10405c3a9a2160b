"""Workloads, as far as "whose pods are these?" needs them: who they are, who controls them, what they select.

A cluster keeps up to ten old ReplicaSets per Deployment, and each has a whole pod template, of which nothing is read
here.
"""

from __future__ import annotations

from trellis.api.kube.meta import LabelSelector, OwnerReference, controller_among
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
        return controller_among(self.owner_references)


class Observed(Slice, frozen=True):
    """Any object of which little more than its name and its owners is read."""

    metadata: OwnedMeta = OwnedMeta()


class SelectingSpec(Slice, frozen=True):
    """The spec of whatever says which pods are its own."""

    selector: LabelSelector | None = None


class ObservedWorkload(Observed, frozen=True):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or Job."""

    spec: SelectingSpec = SelectingSpec()


class PlainlySelectingSpec(Slice, frozen=True):
    """A selector from before there were selectors: a map of labels."""

    selector: Labels = NOTHING


class ObservedReplicationController(Observed, frozen=True):
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


class ObservedCronJob(Observed, frozen=True):
    """A CronJob."""

    spec: ObservedCronJobSpec = ObservedCronJobSpec()
