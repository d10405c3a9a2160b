"""The Job and CronJob controllers of the model cluster.

A run of a Job has `parallelism` pods at a time, until `completions` of them have succeeded. A pod that was lost or
evicted is created again, and begins anew; one that has ended is removed. A Job without a CronJob exists all the time,
as a CronJob would: it is what a policy names; each of its runs begins at its time.

A CronJob has one Job for each time of its schedule, by the rules of Kubernetes 1.36. `Allow` begins a Job beside those
that still run, `Replace` deletes those first. `Forbid` begins none while one runs: the last time that was missed is
made up for when that one ends, unless the starting deadline has passed by then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

import msgspec

from trellis.api.kube.meta import ObjectMeta, OwnerReference
from trellis.api.kube.pods import PodTemplateSpec
from trellis.api.kube.workloads import CronJob, CronJobSpec, Job, JobSpec, JobTemplateSpec
from trellis.sim.cluster.pod_lifecycle import PodLifecycle
from trellis.sim.cluster.pod_state import ModelPod
from trellis.sim.cluster.pods import SUCCEEDED, api_time, name_suffix
from trellis.sim.cluster.state import ModelState
from trellis.sim.fleet import CronRules
from trellis.sim.kernel import Priority


class JobSize(msgspec.Struct, frozen=True):
    """How many pods run at a time, and how many have to succeed."""

    parallelism: int
    completions: int

    @classmethod
    def of(cls, parallelism: int, completions: int | None) -> JobSize:
        """The size that a Job declares: without completions each of its pods runs once."""
        return cls(parallelism, parallelism if completions is None else completions)


class JobRun:
    """One run; `create_pod` creates one more of its pods."""

    def __init__(
        self, state: ModelState, lifecycle: PodLifecycle, size: JobSize, create_pod: Callable[[], ModelPod]
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._size = size
        self._create_pod = create_pod
        self._succeeded = 0
        self._pods: list[ModelPod] = []

    def begin(self) -> None:
        """Create the first pods."""
        self._add(min(self._size.parallelism, self._size.completions))

    def reconcile(self) -> bool:
        """Remove finished pods and create missing ones; returns whether the run is over."""
        unfinished = []
        for model_pod in self._pods:
            if model_pod.pod.status.phase == SUCCEEDED:
                self._succeeded += 1
                self._lifecycle.remove_pod(model_pod)
            elif not model_pod.terminating and self._state.pods.get(model_pod.key) is model_pod:
                unfinished.append(model_pod)
        self._pods = unfinished
        self._add(min(self._size.parallelism, self._size.completions - self._succeeded) - len(unfinished))
        return not self._pods

    def stop(self) -> None:
        """Delete the pods of the run."""
        for model_pod in self._pods:
            self._lifecycle.delete(model_pod)
        self._pods = []

    def _add(self, count: int) -> None:
        self._pods += [self._create_pod() for _ in range(count)]


class JobController:
    """Reconciles the pods of one Job."""

    def __init__(self, state: ModelState, lifecycle: PodLifecycle, workload: int) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._workload = workload
        self._definition = state.fleet.workloads[workload]
        self._size = JobSize.of(self._definition.replicas, self._definition.completions)
        self._runs: dict[int, JobRun] = {}
        self._names = count()
        self._uid = state.uid()

    def begin(self) -> None:
        """Create the Job, and schedule its runs."""
        state, template = self._state, self._state.templates[self._workload]
        metadata = state.metadata(self._workload, self._uid)
        pods = PodTemplateSpec(template.metadata, template.spec)
        spec = JobSpec(
            self._definition.replicas, self._definition.completions, selector=template.selector, template=pods
        )
        state.publish(self._workload, Job(metadata, spec))
        for run, (begin, _) in enumerate(self._definition.runs):
            if begin >= state.now:
                state.kernel.at(begin, partial(self._begin_run, run), Priority.CONTROLLER)

    def roll_out(self) -> None:
        """The next run has the new version, and those under way end with the old one."""

    def reconcile(self) -> None:
        """Remove finished pods, and replace lost ones."""
        for run, job_run in list(self._runs.items()):
            if job_run.reconcile():
                del self._runs[run]

    def _begin_run(self, run: int) -> None:
        self._runs[run] = JobRun(self._state, self._lifecycle, self._size, partial(self._create_pod, run))
        self._runs[run].begin()

    def _create_pod(self, run: int) -> ModelPod:
        owner = OwnerReference("batch/v1", "Job", self._definition.name, self._uid, controller=True)
        name = f"{self._definition.name}-{run}-{name_suffix(next(self._names), 5)}"
        labels = {"batch.kubernetes.io/job-name": self._definition.name}
        return self._lifecycle.create_pod(
            self._workload, name, owner, labels=labels, ordinal=run, seconds=self._definition.runs[run][1]
        )


FORBID: Final = "Forbid"
REPLACE: Final = "Replace"
_BATCH: Final = "batch/v1"
_MINUTE: Final = 60.0


class CronJobController:
    """Reconciles the Jobs and the pods of one CronJob."""

    def __init__(self, state: ModelState, lifecycle: PodLifecycle, workload: int) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._workload = workload
        self._definition = state.fleet.workloads[workload]
        self._rules = self._definition.cron or CronRules()
        self._size = JobSize.of(self._definition.replicas, self._definition.completions)
        self._runs: dict[int, tuple[Job, JobRun]] = {}
        self._missed: int | None = None
        self._names = count()
        self._uid = state.uid()

    def begin(self) -> None:
        """Create the CronJob, and schedule its Jobs."""
        state, rules = self._state, self._rules
        spec = CronJobSpec(
            schedule=rules.schedule,
            time_zone=rules.time_zone,
            suspend=not self._definition.runs,
            concurrency_policy=rules.concurrency,
            job_template=JobTemplateSpec(spec=self._job_spec()),
        )
        state.publish(self._workload, CronJob(state.metadata(self._workload, self._uid), spec))
        for run, (time, _) in enumerate(self._definition.runs):
            if time >= state.now:
                state.kernel.at(time, partial(self._start_run, run), Priority.CONTROLLER)

    def roll_out(self) -> None:
        """The next Job has the new version, and those under way end with the old one."""

    def reconcile(self) -> None:
        """Reconcile the running Jobs, and make up for a missed time."""
        for run, (job, job_run) in list(self._runs.items()):
            if job_run.reconcile():
                self._end(run, job)
        if self._missed is not None and not self._runs:
            run, self._missed = self._missed, None
            late = self._state.now - self._definition.runs[run][0]
            if self._rules.deadline is None or late <= self._rules.deadline:
                self._begin_job(run)

    def _start_run(self, run: int) -> None:
        if self._runs and self._rules.concurrency == FORBID:
            self._missed = run
            return
        if self._rules.concurrency == REPLACE:
            for before, (job, job_run) in list(self._runs.items()):
                job_run.stop()
                self._end(before, job)
        self._begin_job(run)

    def _begin_job(self, run: int) -> None:
        state, definition = self._state, self._definition
        # As Kubernetes names them: by the minute for which they are scheduled.
        metadata = ObjectMeta(
            name=f"{definition.name}-{int(definition.runs[run][0] // _MINUTE)}",
            namespace=definition.namespace,
            uid=state.uid(),
            resource_version=state.version(),
            creation_timestamp=api_time(state.now),
            labels=state.templates[self._workload].metadata.labels,
            owner_references=(OwnerReference(_BATCH, "CronJob", definition.name, self._uid, controller=True),),
        )
        job = Job(metadata, self._job_spec())
        state.watcher.on_workload("Job", None, job)
        job_run = JobRun(state, self._lifecycle, self._size, partial(self._create_pod, run, job))
        self._runs[run] = (job, job_run)
        job_run.begin()

    def _end(self, run: int, job: Job) -> None:
        del self._runs[run]
        self._state.watcher.on_workload("Job", job, None)

    def _job_spec(self) -> JobSpec:
        definition, template = self._definition, self._state.templates[self._workload]
        pods = PodTemplateSpec(template.metadata, template.spec)
        return JobSpec(definition.replicas, definition.completions, selector=template.selector, template=pods)

    def _create_pod(self, run: int, job: Job) -> ModelPod:
        owner = OwnerReference(_BATCH, "Job", job.metadata.name, job.metadata.uid, controller=True)
        name = f"{job.metadata.name}-{name_suffix(next(self._names), 5)}"
        labels = {"batch.kubernetes.io/job-name": job.metadata.name}
        return self._lifecycle.create_pod(
            self._workload, name, owner, labels=labels, ordinal=run, seconds=self._definition.runs[run][1]
        )
