"""The recommender without its I/O: two calls decide a pass, and a third records what was written.

`begin` ingests the changes of the cluster and returns the needs: usage and history to fetch. `finish` ingests what was
fetched and returns all writes: statuses, totals of Hvpas, checkpoints, and the checkpoints to delete. `commit` records
which of them were applied. The controller, the simulator, the replay of a recording and
`explain` use it alike. The same input gives the same output in every process, so nothing may depend on the order of a
set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec
import numpy as np

from trellis.api.feature_gates import FeatureGates
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.resolve import DEFAULT_RECOMMENDER
from trellis.base.errors import InvalidCheckpoint, format_value
from trellis.base.selectors import Selector
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.cluster.pod_resources import count_resource_sources
from trellis.core.cluster.store import BY_NAMESPACE, ObjectKey
from trellis.core.recommend.backfill import BackfillRequest, NamespaceBackfill
from trellis.core.recommend.explanations import LastPass
from trellis.core.recommend.post_processing import AmountsObserver
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.publish.hvpa_totals import (
    GovernedVpa,
    HvpaTotals,
    compute_totals,
    publishes_totals,
    read_targets,
)
from trellis.core.recommend.recommendation_pass import PassResult, run_pass
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.settings import DefaultSettings, PipelineSettings
from trellis.core.recommend.state.condition_types import RESIZE_NOT_SERVED, RESIZE_RESTARTS, VpaState
from trellis.core.recommend.state.governed_pods import (
    NamespaceGovernance,
    build_governance,
    build_owners,
    read_vpa_target,
    select_governed_pods,
    select_namespace,
)
from trellis.core.recommend.state.retention import UsageRetention, group_containers_by_vpa
from trellis.core.recommend.state.snapshot import (
    ClusterObservation,
    FetchedUsage,
    PendingHistory,
    PodOomKill,
    RecommenderScope,
    RecommenderSnapshot,
    StepSamples,
)
from trellis.core.recommend.state.tables import ServedVpa, VpaStatusWrite, read_served_vpa
from trellis.core.recommend.state.vpa_store import VpaStore
from trellis.core.usage.checkpoints.format import SavedRow
from trellis.core.usage.columns import IntColumn, RowKey
from trellis.core.usage.model import UsageModel, UsageModelSizes
from trellis.core.usage.sample_ingestion import OomRecord
from trellis.core.usage.samples import IngestResult, Measurements
from trellis.core.usage.settings import Tuning, UsageSettings
from trellis.core.usage.tracked_pods import track_pod
from trellis.core.usage.view import RowsView

_RESIZE_NOT_SERVED_MESSAGE: Final = (
    "no pod is boosted: this API server cannot resize pods in place, so a boost could not be "
    "ended; startupBoost needs Kubernetes 1.33 or later"
)

_RESIZE_RESTARTS_MESSAGE: Final = (
    "containers that are not boosted: {}; their resizePolicy for cpu is RestartContainer, so the "
    "end of the boost would restart them; set it to NotRequired"
)


class PassStage(StrEnum):
    """Stages of `finish` that are timed."""

    INGESTED = "ingested"
    COLLECTED = "collected"


class IngestReport(msgspec.Struct, frozen=True):
    """The result of ingesting fetched usage and history.

    `sources` counts where the resources of pods were read from. `refused` has the checkpoints that could not be used.
    """

    sources: Counter[str]
    refused: Mapping[RowKey, InvalidCheckpoint]
    samples: IngestResult
    kills: OomRecord


class PassDecision(msgspec.Struct, frozen=True):
    """The decisions of a pass.

    `recommendations` has the statuses to write. `totals` are to be written to Hvpas; `totals_failure` is why there are
    none, if computing them failed. `checkpoints` are the rows whose checkpoints are to be written,
    `obsolete_checkpoints` the containers of served VPAs whose checkpoints are to be deleted.
    """

    recommendations: PassResult
    totals: Sequence[HvpaTotals]
    totals_failure: str
    checkpoints: Sequence[SavedRow]
    obsolete_checkpoints: Sequence[RowKey]
    ingested: IngestReport
    sizes: UsageModelSizes


class PassWrites(msgspec.Struct, frozen=True):
    """The writes that were applied: statuses with their new resource versions, and checkpoints."""

    statuses: Sequence[tuple[VpaStatusWrite, str]] = ()
    checkpoints: Sequence[RowKey] = ()


class PassNeeds:
    """The usage and history to fetch before a pass can be finished.

    `served` are the VPAs that are served now. `new_vpas` were not served before: their history is to be fetched.
    """

    def __init__(
        self,
        snapshot: RecommenderSnapshot,
        served: Mapping[ObjectKey, ServedVpa],
        new_vpas: frozenset[ObjectKey],
        governance: Mapping[str, NamespaceGovernance],
        retention: UsageRetention,
    ) -> None:
        self.served = frozenset(served)
        self.new_vpas = new_vpas
        self._snapshot = snapshot
        self._governance = governance
        self._retention = retention

    def list_namespaces(self) -> list[str]:
        """The namespaces of served VPAs."""
        return sorted({namespace for namespace, _ in self.served})

    def list_selectors(self) -> list[tuple[ObjectKey, Selector, tuple[str, ...]]]:
        """The served VPAs that govern pods, with the selectors of their targets and the names of the pods."""
        return [
            ((namespace, claim.name), claim.selector, tuple(pods[claim.name]))
            for namespace, governance in self._governance.items()
            for pods in [governance.governance.by_governor()]
            for claim in governance.claims
            if claim.selector and claim.name in pods and (namespace, claim.name) in self.served
        ]

    def build_backfill(self, vpas: frozenset[ObjectKey]) -> BackfillRequest:
        """The request for the history of VPAs from a source that knows pods alone."""
        namespaces: dict[str, NamespaceBackfill] = {}
        tunings: dict[RowKey, Tuning] = {}
        for namespace in {key[0] for key in vpas} & self._governance.keys():
            governance = self._governance[namespace]
            pods = self._snapshot.pods.by_index(BY_NAMESPACE, namespace)
            governed = select_governed_pods(governance, pods, lambda _: True)
            containers = group_containers_by_vpa([track_pod(pod, vpa) for pod, vpa in governed])
            namespaces[namespace] = NamespaceBackfill(
                governance.claims,
                governance.governance.governor,
                {vpa: frozenset(names) for (_, vpa), names in containers.items()},
            )
            for key, names in containers.items():
                vpa_tunings = self._retention.read_tunings(key, names)
                tunings |= {RowKey(*key, name): tuning for name, tuning in vpa_tunings.items() if tuning}
        retention = self._retention
        return BackfillRequest(vpas, namespaces, retention.settings, tunings, vpas & retention.with_history)


class RecommenderEngine:
    """The usage model, the VPAs that are served, and the steps of a pass over them."""

    def __init__(
        self,
        usage: UsageSettings,
        pipeline: PipelineSettings,
        gates: FeatureGates,
        estimates: DefaultSettings | None = None,
    ) -> None:
        """The `estimates` are those of the totals for Hvpas where `default` is served elsewhere."""
        self.model = UsageModel(usage)
        self.store = VpaStore()
        self._pipeline = pipeline
        self._gates = gates
        self._estimates = estimates
        self._scope = RecommenderScope(frozenset())
        self._recommenders: Mapping[str, Recommender] = {}
        self._can_resize_pods = True
        self._snapshot: RecommenderSnapshot | None = None
        self._served: dict[ObjectKey, ServedVpa] = {}
        self._retention = UsageRetention(self.model, self._served, gates)
        self._retention_changed = True
        self._targets: dict[ObjectKey, TargetRef] = {}
        self._scales: Mapping[TargetRef, ScaleInfo] = {}
        self._pending = PendingHistory()
        self._governance: dict[str, NamespaceGovernance] = {}
        self._kills: tuple[PodOomKill, ...] = ()
        self._namespaces_with_kills: set[str] = set()
        self._ungoverned: set[str] = set()
        self._untracked: set[str] = set()
        self._with_totals: set[ObjectKey] = set()

    def begin(self, observed: ClusterObservation) -> PassNeeds:
        """Ingest the changes of the cluster; the result has the usage and history to fetch."""
        snapshot = observed.snapshot
        self._can_resize_pods = observed.can_resize
        new = self._load_vpas(observed)
        self._load_governance(snapshot, observed.scales)
        self._snapshot = snapshot
        self._kills = snapshot.changes.kills
        return PassNeeds(snapshot, self._served, new, self._governance, self._retention)

    def ingest(self, fetched: FetchedUsage, now: float) -> IngestReport:
        """Ingest history, pods, usage and out-of-memory kills, without deciding anything.

        `finish` does it by itself. The simulator does it after every step, where samples count by the pods of the step.
        """
        refused = self._restore(fetched, now)
        sources = self._track_pods(fetched.pending, now)
        for samples in fetched.past:
            self.model.ingest(samples, now)
        if fetched.steps:
            _ingest_steps(self.model, fetched.steps, now)
        ingested = self.model.ingest(fetched.samples, now)
        kills = self.model.record_ooms([kill.kill for kill in self._kills], now)
        self._kills = ()
        return IngestReport(sources, refused, ingested, kills)

    def finish(
        self,
        fetched: FetchedUsage,
        now: float,
        *,
        checkpoint_limit: int = 0,
        on_stage: Callable[[PassStage], None] = lambda _stage: None,
        on_amounts: AmountsObserver | None = None,
    ) -> PassDecision:
        """Ingest what was fetched, and decide all writes; `on_amounts` observes the stages of amounts."""
        ingested = self.ingest(fetched, now)
        on_stage(PassStage.INGESTED)
        obsolete = self._collect_garbage(now)
        on_stage(PassStage.COLLECTED)
        view = self.model.view()
        recommendations = run_pass(view, self.store, self._recommenders, self._pipeline, now, observer=on_amounts)
        totals, totals_failure = self._compute_totals(view, now)
        return PassDecision(
            recommendations=recommendations,
            totals=totals,
            totals_failure=totals_failure,
            checkpoints=self._select_checkpoints(checkpoint_limit, now) if checkpoint_limit else [],
            obsolete_checkpoints=obsolete,
            ingested=ingested,
            sizes=self.model.sizes(),
        )

    def select_handover(self, covers: Callable[[str], bool], now: float) -> list[SavedRow]:
        """What no checkpoint has yet of VPAs whose namespaces another process is to serve: those not covered."""
        rows = self.model.select_unsaved(now, self.model.sizes().rows)
        vpas = [(key.namespace, key.vpa) for key in self.model.keys(rows)]
        leaving = [at for at, vpa in enumerate(vpas) if not covers(vpa[0]) and self._can_save(vpa)]
        return self.model.save_rows(rows[leaving], now)

    def commit(self, decision: PassDecision, written: PassWrites, now: float) -> LastPass:
        """Record what was written; the result explains the pass."""
        self.store.record_writes(written.statuses, now)
        self._mark_saved(written.checkpoints, now)
        return LastPass.build(decision.recommendations, self.store, (write for write, _ in written.statuses), now)

    def _load_vpas(self, observed: ClusterObservation) -> frozenset[ObjectKey]:
        """Load changed VPAs, or all if the scope changed; the result is the newly served ones."""
        snapshot, scope = observed.snapshot, observed.scope
        if observed.recommenders is not self._recommenders:
            self._recommenders = observed.recommenders
            self._retention_changed = True
        changed = snapshot.changes.vpas
        if scope != self._scope:
            changed = frozenset(snapshot.vpas.objects.keys() | self._served.keys())
            if scope.shard != self._scope.shard:
                self._ungoverned |= {namespace for namespace, _ in changed}
        new = {key for key in sorted(changed) if self._load_vpa(key, snapshot.vpas.get(*key), scope)}
        self._ungoverned |= {key[0] for key in new}
        if self._retention_changed:
            self._retention_changed = False
            self._retention.retain_for(self._recommenders)
        self._scope = scope
        return frozenset(new)

    def _load_vpa(self, key: ObjectKey, vpa: VerticalPodAutoscaler | None, scope: RecommenderScope) -> bool:
        """Serve a VPA if it is in scope; the result is whether it was not served before."""
        previous = self._served.get(key)
        served = read_served_vpa(vpa, previous) if vpa is not None and scope.covers(key[0]) else None
        if vpa is None or served is None or served.recommender not in scope.recommenders:
            self._drop_vpa(key, is_deleted=vpa is None)
            return False
        # Most changes are of a status, which changes no retention.
        if previous is None or previous.effective is not served.effective or previous.annotations != served.annotations:
            self._retention_changed = True
        self._reset_on_new_target(key, read_vpa_target(vpa))
        self._served[key] = served
        self.store.put(served)
        return previous is None or previous.uid != served.uid

    def _reset_on_new_target(self, key: ObjectKey, target: TargetRef) -> None:
        """Clear the rows of a VPA with a new target: the usage of the old one does not apply."""
        if not self._targets.setdefault(key, target).is_same(target):
            self._targets[key] = target
            self.model.reset_vpa(*key)

    def _drop_vpa(self, key: ObjectKey, *, is_deleted: bool) -> None:
        """Stop serving a VPA that was deleted, perhaps for a moment, or that another process serves."""
        if self._served.pop(key, None) is None:
            return
        self._retention_changed = True
        self._ungoverned.add(key[0])
        self._targets.pop(key, None)
        self._retention.forget(key)
        self.store.drop(*key)
        if not is_deleted:
            self.model.reset_vpa(*key)

    def _load_governance(self, snapshot: RecommenderSnapshot, scales: Mapping[TargetRef, ScaleInfo]) -> None:
        """Recompute which VPA governs which pods, in namespaces in which something changed.

        Those in which a pod was retained for its kill are among them, in this pass and in the one after.
        """
        with_kills = {kill.kill.namespace for kill in snapshot.changes.kills}
        changed = self._ungoverned | snapshot.changes.namespaces | self._namespaces_with_kills | with_kills
        changed |= {target.namespace for target, scale in scales.items() if self._scales.get(target) != scale}
        owners, shard = build_owners(snapshot, scales), self._scope.shard
        for namespace in sorted(changed):
            vpas, pods, hvpas = select_namespace(snapshot, namespace)
            if vpas and (shard is None or shard.covers(namespace)):
                self._governance[namespace] = build_governance(vpas, pods, hvpas, owners)
            else:
                self._governance.pop(namespace, None)
        self._scales, self._namespaces_with_kills, self._ungoverned = scales, with_kills, set()
        self._untracked |= changed

    def _restore(self, fetched: FetchedUsage, now: float) -> Mapping[RowKey, InvalidCheckpoint]:
        """Merge history into the model; the result is the invalid checkpoints."""
        refused: dict[RowKey, InvalidCheckpoint] = {}
        for history in fetched.history:
            refused |= self.model.restore_all(history.rows)
            if not history.from_checkpoints:
                keys = [row.key for row in history.rows if row.key not in refused]
                self.model.mark_unsaved(self.model.find_rows(keys), now)
        return refused

    def _track_pods(self, pending: PendingHistory, now: float) -> Counter[str]:
        """Have the model track the pods of VPAs; the result counts where resources of pods were read from."""
        changed = self._untracked
        changed |= {key[0] for key in self._pending.fetching ^ pending.fetching}
        changed |= {key[0] for key in self._pending.unavailable ^ pending.unavailable}
        self._pending, self._untracked = pending, set()
        sources: Counter[str] = Counter()
        for namespace in sorted(changed):
            sources += self._track_namespace(namespace, now)
        with_totals = {key for key in self._list_vpas_under_hvpas() if self._is_tracked(key)}
        if with_totals != self._with_totals:
            self._with_totals = with_totals
            self.model.keep_totals(with_totals)
        return sources

    def _track_namespace(self, namespace: str, now: float) -> Counter[str]:
        governance = self._governance.get(namespace)
        if governance is None or self._snapshot is None:
            self.model.track_pods(namespace, [], now)
            return Counter()
        pods = select_namespace(self._snapshot, namespace)[1]
        governed = select_governed_pods(governance, pods, lambda name: self._is_tracked((namespace, name)))
        tracked = [track_pod(pod, vpa) for pod, vpa in governed]
        self._update_states(namespace, governance, self._find_restarting_containers(namespace, governed))
        self._retention.tune(tracked)
        self.model.track_pods(namespace, tracked, now)
        return count_resource_sources(pod for pod, _ in governed)

    def _is_tracked(self, key: ObjectKey) -> bool:
        """Whether the usage of a VPA's pods is retained: it is served, or an Hvpa needs the whole workload's.

        The latter is written by one process alone, whichever recommender serves the VPA.
        """
        if key in self._served:
            return True
        governance = self._governance.get(key[0])
        scope = self._scope
        return scope.keeps_totals and scope.covers(key[0]) and governance is not None and key[1] in governance.hvpas

    def _list_vpas_under_hvpas(self) -> Iterator[ObjectKey]:
        for namespace, governance in self._governance.items():
            yield from ((namespace, name) for name in governance.hvpas)

    def _collect_garbage(self, now: float) -> list[RowKey]:
        """Remove unused rows; the result is the removed containers of served VPAs."""
        removed = self.model.collect_garbage(self._served.keys() | self._with_totals, now)
        return [key for key in removed if (key.namespace, key.vpa) in self._served]

    def _select_checkpoints(self, limit: int, now: float) -> list[SavedRow]:
        """Rows whose checkpoints are to be written; VPAs that wait for their history come later."""
        # VPAs that wait must not take the places of those that do not.
        max_rows = self.model.sizes().rows if self._pending.fetching else limit
        rows = self.model.select_unsaved(now, max_rows)
        keys = self.model.keys(rows)
        # The process that serves a VPA writes its checkpoints.
        self._mark_saved([key for key in keys if (key.namespace, key.vpa) not in self._served], now)
        savable = [at for at, key in enumerate(keys) if self._can_save((key.namespace, key.vpa))]
        return self.model.save_rows(rows[savable[:limit]], now)

    def _can_save(self, key: ObjectKey) -> bool:
        return key in self._served and key not in self._pending.fetching

    def _mark_saved(self, keys: Sequence[RowKey], now: float) -> None:
        rows = self.model.find_rows(keys)
        self.model.mark_saved(rows[rows >= 0], now)

    def _compute_totals(self, view: RowsView, now: float) -> tuple[list[HvpaTotals], str]:
        """The totals of workloads whose VPAs publish none, where the Hvpas have others; or why there are none."""
        if not self._scope.keeps_totals:
            return [], ""
        governed = {key: vpa for key in sorted(self._with_totals) if (vpa := self._find_vpa_without_totals(key))}
        if not governed:
            return [], ""
        recommender = self._recommenders.get(DEFAULT_RECOMMENDER) or DefaultRecommender(self._estimates)
        try:
            sums = compute_totals(view, recommender, governed, now)
        except Exception as error:  # noqa: BLE001 - a recommender that fails must not keep statuses from being written
            return [], f"{type(error).__name__}: {format_value(str(error), 200)}"
        totals = (HvpaTotals.from_amounts(self._governance[key[0]].hvpas[key[1]], total) for key, total in sums.items())
        return [hvpa_totals for hvpa_totals in totals if hvpa_totals.needs_write], ""

    def _find_vpa_without_totals(self, key: ObjectKey) -> GovernedVpa | None:
        """A VPA under an Hvpa whose own status has no totals; None if it has, or if it is about to have them."""
        governance = self._governance[key[0]]
        effective, vpa = governance.effective[key[1]], self._snapshot.vpas.get(*key) if self._snapshot else None
        is_served_here = (
            effective.recommender == DEFAULT_RECOMMENDER and DEFAULT_RECOMMENDER in self._scope.recommenders
        )
        if key[1] in governance.publishing and (is_served_here or publishes_totals(vpa)):
            return None
        return GovernedVpa(effective, None if is_served_here else read_targets(vpa))

    def _find_restarting_containers(
        self, namespace: str, governed: Sequence[tuple[ObservedPod, str]]
    ) -> dict[str, set[str]]:
        """By VPA, the containers to boost that a change of CPU restarts."""
        boosting = {
            name: served.effective
            for name in {vpa for _, vpa in governed}
            if (served := self._served.get((namespace, name))) is not None and served.effective.can_boost
        }
        restarting: dict[str, set[str]] = {}
        for pod, vpa in governed if boosting else ():
            if (effective := boosting.get(vpa)) is None:
                continue
            for container in pod.spec.running:
                if container.restarts_on_cpu and effective.get_container(container.name).boost is not None:
                    restarting.setdefault(vpa, set()).add(container.name)
        return restarting

    def _update_states(
        self, namespace: str, governance: NamespaceGovernance, restarting: Mapping[str, Collection[str]]
    ) -> None:
        for name, pods in governance.governance.matched.items():
            key = (namespace, name)
            if key not in self._served:
                continue
            problem = governance.problems.get(name)
            boost_reason, boost_problem = self._find_boost_problem(key, restarting.get(name, ()))
            state = VpaState(
                pods=pods,
                problem=problem.message if problem else "",
                problem_reason=problem.reason.code if problem else "",
                rivals=governance.governance.rivals.get(name, ()),
                is_outranked=governance.is_outranked(name),
                fetching_history=key in self._pending.fetching,
                history_problem=self._pending.problem if key in self._pending.unavailable else "",
                boost_problem=boost_problem,
                boost_reason=boost_reason,
                publishes_totals=name in governance.publishing,
            )
            self.store.set_state(namespace, name, state)

    def _find_boost_problem(self, key: ObjectKey, restarting: Collection[str]) -> tuple[str, str]:
        """The reason and message why containers are not boosted although the VPA asks for it."""
        if not self._gates.cpu_startup_boost or not self._served[key].effective.can_boost:
            return "", ""
        if not self._can_resize_pods:
            return RESIZE_NOT_SERVED.code, _RESIZE_NOT_SERVED_MESSAGE
        if restarting:
            return RESIZE_RESTARTS.code, _RESIZE_RESTARTS_MESSAGE.format(", ".join(sorted(restarting)))
        return "", ""


def _ingest_steps(model: UsageModel, steps: Sequence[StepSamples], now: float) -> None:
    """Ingest the samples of several steps at once; containers that steps share are looked up once."""
    slots: dict[int, IntColumn] = {}
    for step in steps:
        if id(step.names) not in slots:
            slots[id(step.names)] = model.find_slots(*step.names)
    joined = np.concatenate([slots[id(step.names)] for step in steps])
    # Those of one container side by side, as the model wants them; containers that are not followed come first.
    order = np.argsort(joined, kind="stable")[np.count_nonzero(joined < 0) :]
    measured = Measurements(
        np.concatenate([step.measured.times for step in steps])[order],
        np.concatenate([step.measured.cpu for step in steps])[order],
        np.concatenate([step.measured.memory for step in steps])[order],
    )
    model.ingest_slots(joined[order], measured, now)
