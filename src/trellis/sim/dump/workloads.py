"""Workloads of a dump: pods by their topmost controllers, Jobs and CronJobs, each with its template.

What the model has no controller for, a Rollout or a pod without a controller, is simulated as a Deployment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import LabelSelector, ObjectMeta
from trellis.api.kube.pods import Pod, PodSpec, PodTemplateSpec
from trellis.api.kube.policies import PodDisruptionBudget
from trellis.api.kube.slices import IntOrString, Labels
from trellis.api.kube.workloads import CronJob, Job, JobSpec
from trellis.base.errors import InvalidSchedule, InvalidSelector
from trellis.base.selectors import MatchExpression, selector_from_object
from trellis.core.cluster.owners import Owners, TargetRef, build_controller_ref
from trellis.core.cluster.state import ClusterState
from trellis.core.cluster.store import BY_NAMESPACE, BY_OWNER, ObjectKey, key_of
from trellis.sim.cluster.pods import BATCH_KINDS
from trellis.sim.dump.job_runs import find_job_run, list_cron_times, read_cron_rules
from trellis.sim.fleet import CronRules, SimulationClock
from trellis.sim.results import NotPlayedObjects

_OVER: Final = ("Succeeded", "Failed")
_NODE: Final = "Node"
_PLAYED: Final = ("Deployment", "StatefulSet", "DaemonSet")
_POD: Final = "Pod"
_BATCH: Final = "batch/v1"
# Labels by which a controller tells its own pods apart; the model has its own.
_DRAWN: Final = ("pod-template-hash", "controller-revision-hash", "pod-template-generation")
# Kinds that say themselves how many pods they are to have.
_COUNTED: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicationController")


class DumpedWorkload(msgspec.Struct, frozen=True):
    """A workload of a dump: its target, the kind by which it is simulated, and its pods.

    `jobs` are the Jobs behind one that runs to completion, and `job` the spec of each of them; `times` are those of the
    schedule of a CronJob.
    """

    target: TargetRef
    kind: str
    name: str
    replicas: int
    template: PodTemplateSpec
    pods: tuple[str, ...]
    max_unavailable: int | None = None
    job: JobSpec | None = None
    jobs: tuple[Job, ...] = ()
    cron: CronRules | None = None
    times: tuple[float, ...] = ()

    @property
    def containers(self) -> tuple[str, ...]:
        """The containers that run as long as a pod."""
        spec = self.template.spec
        return tuple(container.name for container in (*spec.containers, *filter(_is_sidecar, spec.init_containers)))


class DumpedWorkloads(msgspec.Struct, frozen=True):
    """The workloads that can be simulated, in the order of their names; `static` are static pods, by node."""

    workloads: tuple[DumpedWorkload, ...]
    static: Mapping[str, tuple[Pod, ...]]

    def by_target(self) -> dict[tuple[str, str, str], DumpedWorkload]:
        """The workloads by namespace, kind and name as the dump has them."""
        return {
            (workload.target.namespace, workload.target.kind, workload.target.name): workload
            for workload in self.workloads
        }


def find_workloads(collected: ClusterState, clock: SimulationClock, ledger: NotPlayedObjects) -> DumpedWorkloads:
    """All workloads of a dump that were active in the time of the clock; the rest goes to the ledger."""
    groups, static = _grouped(collected, ledger)
    batch = [*_cron_jobs(collected, groups, clock, ledger), *_jobs(collected, groups, clock, ledger)]
    serving = [group for group in groups if group.kind not in BATCH_KINDS]
    _list_without_pods(collected, serving, ledger)
    names = _WorkloadNames()
    result = []
    guarded: set[ObjectKey] = set()
    # Workloads that keep their kind come first, so that they also keep their names.
    for target in sorted(serving, key=lambda key: (key.namespace, _rank(key.kind), key.name, key.kind)):
        budgets = [
            budget
            for budget in collected.pdbs.by_index(BY_NAMESPACE, target.namespace)
            if _is_about(budget, groups[target][0].metadata.labels)
        ]
        guarded.update(map(key_of, budgets))
        result.append(
            _build_workload(target, names.assign(target), collected.owners.find(target), groups[target], budgets)
        )
        if target.kind not in _PLAYED:
            ledger.add(target.kind, _as_deployment(target.kind))
    batch.sort(key=lambda workload: (workload.target.namespace, workload.name, workload.kind))
    result += [msgspec.structs.replace(workload, name=names.assign(workload.target)) for workload in batch]
    unused = len(collected.pdbs) - len(guarded)
    if unused:
        ledger.add("PodDisruptionBudget", "selects no pods of a simulated long-running workload", unused)
    result.sort(key=lambda workload: (workload.target.namespace, workload.name))
    return DumpedWorkloads(tuple(result), static)


def _grouped(
    collected: ClusterState, ledger: NotPlayedObjects
) -> tuple[dict[TargetRef, list[Pod]], dict[str, tuple[Pod, ...]]]:
    """The pods of each workload, and those of each node."""
    owners = collected.owners
    groups: dict[TargetRef, list[Pod]] = {}
    static: dict[str, tuple[Pod, ...]] = {}
    for pod in collected.pods:
        topmost = _topmost(pod, owners)
        is_over = pod.status.phase in _OVER or pod.metadata.deletion_timestamp is not None
        if topmost.kind in BATCH_KINDS:
            groups.setdefault(topmost, []).append(pod)
        elif is_over:
            ledger.add(_POD, "has ended or is being deleted")
        elif topmost.kind == _NODE:
            node = pod.spec.node_name
            static[node] = (*static.get(node, ()), pod)
            ledger.add(_POD, "static pod: its requests are subtracted from the node, and its usage is not simulated")
        else:
            groups.setdefault(topmost, []).append(pod)
    return groups, static


def _cron_jobs(
    collected: ClusterState, groups: Mapping[TargetRef, list[Pod]], clock: SimulationClock, ledger: NotPlayedObjects
) -> Iterator[DumpedWorkload]:
    for workload in collected.workloads[CronJob.__name__]:
        if not isinstance(workload, CronJob):
            continue
        metadata, rules = workload.metadata, read_cron_rules(workload)
        try:
            times = list_cron_times(rules, clock)
        except InvalidSchedule as error:
            ledger.add(CronJob.__name__, f"its schedule cannot be read: {error.rule}")
            continue
        if workload.spec.suspend or not times:
            reason = "suspended" if workload.spec.suspend else ("its schedule has no run within the simulated time")
            ledger.add(CronJob.__name__, reason)
            continue
        owned = collected.workloads[Job.__name__].by_index(BY_OWNER, metadata.uid) if metadata.uid else ()
        jobs = tuple(job for job in owned if isinstance(job, Job))
        target = TargetRef(metadata.namespace, _BATCH, CronJob.__name__, metadata.name)
        result = _batch(target, workload.spec.job_template.spec, groups, jobs)
        yield msgspec.structs.replace(result, cron=rules, times=times)


def _jobs(
    collected: ClusterState, groups: Mapping[TargetRef, list[Pod]], clock: SimulationClock, ledger: NotPlayedObjects
) -> Iterator[DumpedWorkload]:
    """Jobs without a CronJob, as far as they ran in the time of the clock."""
    for workload in collected.workloads[Job.__name__]:
        owner = workload.metadata.controller
        if not isinstance(workload, Job) or (owner is not None and owner.kind == CronJob.__name__):
            continue
        if workload.status.start_time is None:
            ledger.add(Job.__name__, "suspended" if workload.spec.suspend else "has not started")
        elif find_job_run(workload, clock, collected.time):
            target = TargetRef(workload.metadata.namespace, _BATCH, Job.__name__, workload.metadata.name)
            yield _batch(target, workload.spec, groups, (workload,))


def _batch(
    target: TargetRef,
    job: JobSpec,
    groups: Mapping[TargetRef, list[Pod]],
    jobs: tuple[Job, ...],
) -> DumpedWorkload:
    parallelism = 1 if job.parallelism is None else job.parallelism
    pods = tuple(pod.metadata.name for pod in groups.get(target, ()))
    return DumpedWorkload(target, target.kind, target.name, parallelism, job.template, pods, job=job, jobs=jobs)


def _list_without_pods(collected: ClusterState, serving: Iterable[TargetRef], ledger: NotPlayedObjects) -> None:
    with_pods = {(workload.kind, workload.namespace, workload.name) for workload in serving}
    for kind in _COUNTED:
        for workload in collected.workloads[kind]:
            if (kind, *key_of(workload)) not in with_pods:
                ledger.add(kind, "has no pods")


def _as_deployment(kind: str) -> str:
    if kind == _POD:
        return "without a controller: simulated as a Deployment, which replaces it after an eviction"
    return "simulated as a Deployment: how this kind replaces its pods is not modelled"


def _rank(kind: str) -> int:
    return _PLAYED.index(kind) if kind in _PLAYED else len(_PLAYED)


class _WorkloadNames:
    """Gives each workload a name that no other in its namespace has."""

    def __init__(self) -> None:
        self._used: set[tuple[str, str]] = set()

    def assign(self, target: TargetRef) -> str:
        """Its own name, or one with its kind behind it."""
        name = target.name
        while (target.namespace, name) in self._used:
            name += f"-{target.kind.lower()}"
        self._used.add((target.namespace, name))
        return name


def build_template(workload: DumpedWorkload) -> dict[str, Any]:
    """The template as a manifest has it."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(workload.template, enc_hook=_mapped))
    return document


def _mapped(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(type(value).__name__)


def _topmost(pod: Pod, owners: Owners) -> TargetRef:
    """The topmost controller of a pod that is known, or the pod itself."""
    metadata = pod.metadata
    controller = build_controller_ref(metadata.namespace, metadata.controller)
    if controller is None:
        return TargetRef(metadata.namespace, "v1", _POD, metadata.name)
    topmost = owners.follow(controller).topmost or controller
    if controller.kind == Job.__name__ and topmost.kind != CronJob.__name__:
        # A Job runs to completion, with or without a CronJob above it.
        return TargetRef(metadata.namespace, _BATCH, Job.__name__, controller.name)
    return msgspec.structs.replace(topmost, api_version=_BATCH) if topmost.kind in BATCH_KINDS else topmost


def _build_workload(
    target: TargetRef, name: str, owner: Any, pods: list[Pod], budgets: Iterable[PodDisruptionBudget]
) -> DumpedWorkload:
    template = getattr(owner.spec, "template", None) if owner is not None else None
    kind = target.kind if target.kind in _PLAYED else _PLAYED[0]
    template = template if isinstance(template, PodTemplateSpec) else _from_pod(pods[0], kind)
    # A DaemonSet has one on each node.
    replicas = 1 if kind == "DaemonSet" else _replicas(owner) or len(pods)
    return DumpedWorkload(
        target=target,
        kind=kind,
        name=name,
        replicas=replicas,
        template=template,
        pods=tuple(pod.metadata.name for pod in pods),
        max_unavailable=min(_allowed_disruptions(max(replicas, len(pods)), budgets), default=None),
    )


def _replicas(owner: Any) -> int | None:
    return getattr(owner.spec, "replicas", None) if owner is not None else None


def _from_pod(pod: Pod, kind: str) -> PodTemplateSpec:
    """The template that a pod may have been created from: the pod without what it was given since."""
    labels = {key: value for key, value in pod.metadata.labels.items() if key not in _DRAWN}
    spec: PodSpec = msgspec.structs.replace(pod.spec, node_name="")
    if kind == "DaemonSet" and spec.affinity is not None:
        # It names the one node that the pod is for.
        spec = msgspec.structs.replace(spec, affinity=msgspec.structs.replace(spec.affinity, node_affinity=None))
    return PodTemplateSpec(ObjectMeta(labels=labels, annotations=pod.metadata.annotations), spec)


def _allowed_disruptions(replicas: int, budgets: Iterable[PodDisruptionBudget]) -> Iterator[int]:
    """How many pods each budget lets go at a time; shares are rounded up, as Kubernetes does."""
    for budget in budgets:
        spec = budget.spec
        if spec.max_unavailable is not None:
            yield _count(spec.max_unavailable, replicas)
        elif spec.min_available is not None:
            yield max(0, replicas - _count(spec.min_available, replicas))


def _is_about(budget: PodDisruptionBudget, labels: Labels) -> bool:
    selector = budget.spec.selector
    return selector is not None and _selects(selector, labels)


def _selects(selector: LabelSelector, labels: Labels) -> bool:
    expressions = [
        MatchExpression(expression.key, expression.operator, expression.values)
        for expression in selector.match_expressions
    ]
    try:
        return selector_from_object(selector.match_labels, expressions).matches(labels)
    except InvalidSelector:
        return False


def _count(written: IntOrString, replicas: int) -> int:
    if isinstance(written, int):
        return written
    share = written.removesuffix("%")
    return math.ceil(int(share) * replicas / 100) if share.isdecimal() else replicas


def _is_sidecar(container: Any) -> bool:
    return bool(container.is_sidecar)
