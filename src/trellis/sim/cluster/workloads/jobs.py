"""The Job and CronJob controllers of the model cluster.

A run of a Job has so many pods at a time, until so many of them have ended well. A pod that was lost or evicted is made
again, and begins anew; one that has ended is removed. A Job without a CronJob exists all the time, as a CronJob would:
it is what a policy names; each of its runs begins at its time.

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
    """One run; `make` creates one more of its pods."""

    def __init__(self, state: ModelState, making: PodLifecycle, size: JobSize, make: Callable[[], ModelPod]) -> None:
        self._state = state
        self._making = making
        self._size = size
        self._make = make
        self._succeeded = 0
        self._pods: list[ModelPod] = []

    def begin(self) -> None:
        """Create the first pods."""
        self._add(min(self._size.parallelism, self._size.completions))

    def reconcile(self) -> bool:
        """Remove finished pods and create missing ones; returns whether the run is over."""
        left = []
        for living in self._pods:
            if living.pod.status.phase == SUCCEEDED:
                self._succeeded += 1
                self._making.forget(living)
            elif not living.going and self._state.pods.get(living.key) is living:
                left.append(living)
        self._pods = left
        self._add(min(self._size.parallelism, self._size.completions - self._succeeded) - len(left))
        return not self._pods

    def stop(self) -> None:
        """Delete the pods of the run."""
        for living in self._pods:
            self._making.delete(living)
        self._pods = []

    def _add(self, count: int) -> None:
        self._pods += [self._make() for _ in range(count)]


class JobController:
    """Reconciles the pods of one Job."""

    def __init__(self, state: ModelState, making: PodLifecycle, workload: int) -> None:
        self._state = state
        self._making = making
        self._workload = workload
        self._mine = state.fleet.workloads[workload]
        self._size = JobSize.of(self._mine.replicas, self._mine.completions)
        self._runs: dict[int, JobRun] = {}
        self._names = count()
        self._uid = state.uid()

    def begin(self) -> None:
        """Create the Job, and schedule its runs."""
        state, template = self._state, self._state.templates[self._workload]
        metadata = state.metadata(self._workload, self._uid)
        pods = PodTemplateSpec(template.metadata, template.spec)
        spec = JobSpec(self._mine.replicas, self._mine.completions, selector=template.selector, template=pods)
        state.publish(self._workload, Job(metadata, spec))
        for run, (begin, _) in enumerate(self._mine.runs):
            if begin >= state.now:
                state.kernel.at(begin, partial(self._begin_run, run), Priority.CONTROLLER)

    def roll_out(self) -> None:
        """The next run has the new version, and those under way end with the old one."""

    def reconcile(self) -> None:
        """Remove finished pods, and replace lost ones."""
        for run, under_way in list(self._runs.items()):
            if under_way.reconcile():
                del self._runs[run]

    def _begin_run(self, run: int) -> None:
        self._runs[run] = JobRun(self._state, self._making, self._size, partial(self._make, run))
        self._runs[run].begin()

    def _make(self, run: int) -> ModelPod:
        owner = OwnerReference("batch/v1", "Job", self._mine.name, self._uid, controller=True)
        name = f"{self._mine.name}-{run}-{name_suffix(next(self._names), 5)}"
        labels = {"batch.kubernetes.io/job-name": self._mine.name}
        return self._making.make(
            self._workload, name, owner, labels=labels, ordinal=run, seconds=self._mine.runs[run][1]
        )


FORBID: Final = "Forbid"
REPLACE: Final = "Replace"
_BATCH: Final = "batch/v1"
_MINUTE: Final = 60.0


class CronJobController:
    """Reconciles the Jobs and the pods of one CronJob."""

    def __init__(self, state: ModelState, making: PodLifecycle, workload: int) -> None:
        self._state = state
        self._making = making
        self._workload = workload
        self._mine = state.fleet.workloads[workload]
        self._rules = self._mine.cron or CronRules()
        self._size = JobSize.of(self._mine.replicas, self._mine.completions)
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
            suspend=not self._mine.runs,
            concurrency_policy=rules.concurrency,
            job_template=JobTemplateSpec(spec=self._job_spec()),
        )
        state.publish(self._workload, CronJob(state.metadata(self._workload, self._uid), spec))
        for run, (time, _) in enumerate(self._mine.runs):
            if time >= state.now:
                state.kernel.at(time, partial(self._due, run), Priority.CONTROLLER)

    def roll_out(self) -> None:
        """The next Job has the new version, and those under way end with the old one."""

    def reconcile(self) -> None:
        """Reconcile the running Jobs, and make up for a missed time."""
        for run, (job, under_way) in list(self._runs.items()):
            if under_way.reconcile():
                self._end(run, job)
        if self._missed is not None and not self._runs:
            run, self._missed = self._missed, None
            late = self._state.now - self._mine.runs[run][0]
            if self._rules.deadline is None or late <= self._rules.deadline:
                self._begin_job(run)

    def _due(self, run: int) -> None:
        if self._runs and self._rules.concurrency == FORBID:
            self._missed = run
            return
        if self._rules.concurrency == REPLACE:
            for before, (job, under_way) in list(self._runs.items()):
                under_way.stop()
                self._end(before, job)
        self._begin_job(run)

    def _begin_job(self, run: int) -> None:
        state, mine = self._state, self._mine
        # As Kubernetes names them: by the minute for which they are scheduled.
        metadata = ObjectMeta(
            name=f"{mine.name}-{int(mine.runs[run][0] // _MINUTE)}",
            namespace=mine.namespace,
            uid=state.uid(),
            resource_version=state.version(),
            creation_timestamp=api_time(state.now),
            labels=state.templates[self._workload].metadata.labels,
            owner_references=(OwnerReference(_BATCH, "CronJob", mine.name, self._uid, controller=True),),
        )
        job = Job(metadata, self._job_spec())
        state.watcher.workload("Job", None, job)
        under_way = JobRun(state, self._making, self._size, partial(self._make, run, job))
        self._runs[run] = (job, under_way)
        under_way.begin()

    def _end(self, run: int, job: Job) -> None:
        del self._runs[run]
        self._state.watcher.workload("Job", job, None)

    def _job_spec(self) -> JobSpec:
        mine, template = self._mine, self._state.templates[self._workload]
        pods = PodTemplateSpec(template.metadata, template.spec)
        return JobSpec(mine.replicas, mine.completions, selector=template.selector, template=pods)

    def _make(self, run: int, job: Job) -> ModelPod:
        owner = OwnerReference(_BATCH, "Job", job.metadata.name, job.metadata.uid, controller=True)
        name = f"{job.metadata.name}-{name_suffix(next(self._names), 5)}"
        labels = {"batch.kubernetes.io/job-name": job.metadata.name}
        return self._making.make(
            self._workload, name, owner, labels=labels, ordinal=run, seconds=self._mine.runs[run][1]
        )
