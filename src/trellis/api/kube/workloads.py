"""Workloads: the controllers that create pods, with replica count, selector and pod template.

`replicas` is None where the object does not have it; the API server fills in 1, so only a manifest lacks it.
"""

from __future__ import annotations

from trellis.api.kube.meta import Condition, KubeObject, LabelSelector, ObjectMeta
from trellis.api.kube.pods import PodTemplateSpec
from trellis.api.kube.slices import NOTHING, Labels, Slice, Time


class ReplicatedSpec(Slice, frozen=True):
    """The spec that Deployment, ReplicaSet and StatefulSet share."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicatedStatus(Slice, frozen=True):
    """The counts of existing, updated, ready and available replicas."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(KubeObject, frozen=True):
    """The direct owner of a Deployment's pods."""

    spec: ReplicatedSpec = ReplicatedSpec()
    status: ReplicatedStatus = ReplicatedStatus()


class DeploymentSpec(ReplicatedSpec, frozen=True):
    """A Deployment's spec."""

    paused: bool = False


class Deployment(KubeObject, frozen=True):
    """The owner of ReplicaSets, one per template."""

    spec: DeploymentSpec = DeploymentSpec()
    status: ReplicatedStatus = ReplicatedStatus()


class StatefulSetSpec(ReplicatedSpec, frozen=True):
    """A StatefulSet's spec; the claims' names, with the pod's, name the volumes that outlive it."""

    volume_claim_templates: tuple[KubeObject, ...] = ()


class StatefulSet(KubeObject, frozen=True):
    """The owner of pods with stable names: a new pod may have the old one's name."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: ReplicatedStatus = ReplicatedStatus()


class ReplicationControllerSpec(Slice, frozen=True):
    """Its selector is a plain map, and the template's labels if absent."""

    replicas: int | None = None
    selector: Labels = NOTHING
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicationController(KubeObject, frozen=True):
    """The predecessor of ReplicaSet, which is still served."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicatedStatus = ReplicatedStatus()


class DaemonSetSpec(Slice, frozen=True):
    """A DaemonSet's spec. It has no count: there is one pod for each node that fits."""

    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSetStatus(Slice, frozen=True):
    """How many nodes should run the pod, and on how many it is ready."""

    current_number_scheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0


class DaemonSet(KubeObject, frozen=True):
    """The owner of one pod per node: what a new node holds before anything else."""

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class JobSpec(Slice, frozen=True):
    """A Job's spec. `parallelism` stands where others have replicas."""

    parallelism: int | None = None
    completions: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    suspend: bool = False


class JobStatus(Slice, frozen=True):
    """The status of a Job."""

    conditions: tuple[Condition, ...] = ()
    start_time: Time | None = None
    completion_time: Time | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0


class Job(KubeObject, frozen=True):
    """A Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(Slice, frozen=True):
    """The template of a CronJob's Jobs."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Slice, frozen=True):
    """A CronJob's spec. It has no selector: the labels of its pod template are used as one."""

    schedule: str = ""
    time_zone: str = ""
    suspend: bool = False
    concurrency_policy: str = ""
    starting_deadline_seconds: int | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()


class CronJob(KubeObject, frozen=True):
    """A CronJob."""

    spec: CronJobSpec = CronJobSpec()
