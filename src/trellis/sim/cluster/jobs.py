"""Which pods does a Job have? Those of the runs under way: each begins at its time and runs to its end.

The Job itself is there all the time, as a CronJob would be: it is what a policy names.
"""

from __future__ import annotations

from functools import partial
from itertools import count

from trellis.api.kube.meta import OwnerReference
from trellis.api.kube.pods import PodTemplateSpec
from trellis.api.kube.workloads import Job, JobSpec
from trellis.sim.cluster.job_runs import JobRun, JobSize
from trellis.sim.cluster.living import Living
from trellis.sim.cluster.making import Making
from trellis.sim.cluster.state import State
from trellis.sim.cluster.templates import ending
from trellis.sim.kernel import Priority


class JobController:
    """Keeps the pods of one Job."""

    def __init__(self, state: State, making: Making, workload: int) -> None:
        self._state = state
        self._making = making
        self._workload = workload
        self._mine = state.fleet.workloads[workload]
        self._size = JobSize.of(self._mine.replicas, self._mine.completions)
        self._runs: dict[int, JobRun] = {}
        self._names = count()
        self._uid = state.uid()

    def begin(self) -> None:
        """Make the Job, and have its runs begin in time."""
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
        """Remove what has ended, and make what was lost once more."""
        for run, under_way in list(self._runs.items()):
            if under_way.reconcile():
                del self._runs[run]

    def _begin_run(self, run: int) -> None:
        self._runs[run] = JobRun(self._state, self._making, self._size, partial(self._make, run))
        self._runs[run].begin()

    def _make(self, run: int) -> Living:
        owner = OwnerReference("batch/v1", "Job", self._mine.name, self._uid, controller=True)
        name = f"{self._mine.name}-{run}-{ending(next(self._names), 5)}"
        labels = {"batch.kubernetes.io/job-name": self._mine.name}
        return self._making.make(
            self._workload, name, owner, labels=labels, ordinal=run, seconds=self._mine.runs[run][1]
        )
