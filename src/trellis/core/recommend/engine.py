"""The recommender without its I/O: takes in what was observed, step by step, and decides what to write.

The controller, the simulator and the replay of a recording drive it alike: VPAs, pods, history, usage and kills go in;
statuses, checkpoints and totals for Hvpas come out. The same input gives the same output in every process, so nothing
may depend on the order of a set.

`RecommenderScope` is which VPAs a process serves, `PendingHistory` which of them still wait for past usage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from trellis.api.feature_gates import FeatureGates
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.resolve import DEFAULT_RECOMMENDER
from trellis.base.errors import InvalidCheckpoint
from trellis.base.selectors import Selector
from trellis.core.cluster.owners import Owners, ScaleInfo, TargetRef
from trellis.core.cluster.pod_resources import count_resource_sources
from trellis.core.cluster.store import BY_NAMESPACE, ObjectKey, Snapshot
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
from trellis.core.recommend.state.governance import (
    NamespaceGovernance,
    build_governance,
    build_owners,
    list_followed_pods,
    read_vpa_target,
    select_governed_pods,
    select_namespace,
)
from trellis.core.recommend.state.retention import UsageRetention, group_containers_by_vpa, needs_history
from trellis.core.recommend.state.snapshot import PodOomKill, RecommenderSnapshot
from trellis.core.recommend.state.vpa_store import VpaStore
from trellis.core.recommend.state.vpa_table import ServedVpa, VpaStatusWrite, read_served_vpa
from trellis.core.usage.checkpoints.format import SavedRow
from trellis.core.usage.columns import RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.oom_peaks import OomRecord
from trellis.core.usage.samples import IngestResult, Samples
from trellis.core.usage.settings import Tuning, UsageSettings


class RecommenderScope(msgspec.Struct, frozen=True):
    """Whom this process serves: the recommenders it is, and the namespaces it looks at.

    `totals` is set where it keeps the histories of whole workloads for Hvpas although it does not serve `default`.
    """

    recommenders: frozenset[str]
    namespace: str = ""
    ignored: frozenset[str] = frozenset()
    totals: bool = False

    @property
    def keeps_totals(self) -> bool:
        """Whether histories of whole workloads are kept and published here: only one process can write them."""
        return self.totals or DEFAULT_RECOMMENDER in self.recommenders

    def covers(self, namespace: str) -> bool:
        """Whether objects of a namespace are ours to look at."""
        return namespace == self.namespace if self.namespace else namespace not in self.ignored


class PendingHistory(msgspec.Struct, frozen=True):
    """VPAs whose history is being fetched, and those whose history could not be, with the problem."""

    fetching: frozenset[ObjectKey] = frozenset()
    without: frozenset[ObjectKey] = frozenset()
    problem: str = ""


_RESIZE_NOT_SERVED_MESSAGE: Final = (
    "no pod is boosted: this API server cannot resize pods in place, so that a boost would last for a pod's life; "
    "startupBoost needs Kubernetes 1.33 or later"
)

_RESIZE_RESTARTS_MESSAGE: Final = (
    "containers that are not boosted: {}; their resizePolicy for cpu is RestartContainer, so that the end of the boost "
    "would restart them; set it to NotRequired"
)


class RecommenderEngine:
    """Usage, and the VPAs it is kept for."""

    def __init__(
        self,
        usage: UsageSettings,
        pipeline: PipelineSettings,
        recommenders: Mapping[str, Recommender],
        gates: FeatureGates,
        estimates: DefaultSettings | None = None,
    ) -> None:
        """The `estimates` are those of the totals for Hvpas where `default` is served elsewhere."""
        self.model = UsageModel(usage)
        self._estimates = estimates
        self._vpas: Snapshot[VerticalPodAutoscaler] | None = None
        self.board = VpaStore()
        self._pipeline = pipeline
        self._recommenders = recommenders
        self._gates = gates
        self.can_boost = True
        """Whether the API server could take a boost back."""
        self._scope = RecommenderScope(frozenset())
        self._served: dict[ObjectKey, ServedVpa] = {}
        self._kept = UsageRetention(self.model, self._served, gates)
        self._targets: dict[ObjectKey, TargetRef] = {}
        self._touched: set[str] = set()
        self._rosters: dict[str, NamespaceGovernance] = {}
        self._scales: Mapping[TargetRef, ScaleInfo] = {}
        self._waiting = PendingHistory()
        self._with_totals: set[ObjectKey] = set()
        self._haunted: set[str] = set()
        self._asks_anew = True

    @property
    def served(self) -> frozenset[ObjectKey]:
        """The VPAs that are advised now."""
        return frozenset(self._served)

    def answered_by(self, recommenders: Mapping[str, Recommender]) -> None:
        """Who answers to which name from now on."""
        self._recommenders = recommenders
        self._asks_anew = True

    def load_vpas(
        self, seen: RecommenderSnapshot, scope: RecommenderScope, *, all_of_them: bool
    ) -> frozenset[ObjectKey]:
        """Take in VPAs that changed, or all; the answer is which are served now and were not before."""
        self._scope = scope
        self._vpas = seen.vpas
        new: set[ObjectKey] = set()
        for key in sorted(seen.vpas.objects.keys() | self._served.keys()) if all_of_them else sorted(seen.news.vpas):
            vpa = seen.vpas.get(*key)
            known = self._served.get(key)
            served = read_served_vpa(vpa, known) if vpa is not None and scope.covers(key[0]) else None
            if vpa is None or served is None or served.recommender not in scope.recommenders:
                self._drop(key, is_gone=vpa is None)
                continue
            if known is None or known.uid != served.uid:
                new.add(key)
            # Most changes are of a status, which asks nobody else.
            if known is None or known.effective is not served.effective or known.annotations != served.annotations:
                self._asks_anew = True
            self._retarget(key, read_vpa_target(vpa))
            self._served[key] = served
            self.board.put(served)
        self._touched |= {key[0] for key in new}
        if self._asks_anew:
            self._asks_anew = False
            self._kept.keep_for(self._recommenders)
        return frozenset(new)

    def load_pods(
        self, seen: RecommenderSnapshot, scales: Mapping[TargetRef, ScaleInfo], waiting: PendingHistory, now: float
    ) -> Counter[str]:
        """Take in pods of namespaces in which something changed; the answer is where their resources were read from."""
        sources: Counter[str] = Counter()
        changed = self._changed(seen, scales, waiting)
        self._scales, self._waiting = scales, waiting
        self._haunted = {kill.what.namespace for kill in seen.news.kills}
        owners = build_owners(seen, scales)
        for namespace in sorted(changed):
            sources += self._load_namespace(namespace, seen, owners, now)
        with_totals = {key for key in self._under_hvpas() if self._follows(key)}
        if with_totals != self._with_totals:
            self._with_totals = with_totals
            self.model.keep_totals(with_totals)
        return sources

    def _load_namespace(self, namespace: str, seen: RecommenderSnapshot, owners: Owners, now: float) -> Counter[str]:
        vpas, pods, hvpas = select_namespace(seen, namespace)
        if not vpas:
            self._rosters.pop(namespace, None)
            self.model.follow(namespace, [], now)
            return Counter()
        roster = self._rosters[namespace] = build_governance(vpas, pods, hvpas, owners)
        governed = select_governed_pods(roster, pods, lambda name: self._follows((namespace, name)))
        followed = list_followed_pods(governed)
        self._state(namespace, roster, self._restarting(namespace, governed))
        self._kept.tune(followed)
        self.model.follow(namespace, followed, now)
        return count_resource_sources(pod for pod, _ in governed)

    def _follows(self, key: ObjectKey) -> bool:
        """Whether the usage of a VPA's pods is remembered: it is served, or an Hvpa needs the whole workload's.

        The latter is written by one process alone, whichever recommender serves the VPA.
        """
        if key in self._served:
            return True
        roster = self._rosters.get(key[0])
        return self._scope.keeps_totals and self._scope.covers(key[0]) and roster is not None and key[1] in roster.hvpas

    def _changed(
        self, seen: RecommenderSnapshot, scales: Mapping[TargetRef, ScaleInfo], waiting: PendingHistory
    ) -> set[str]:
        """Namespaces to look at again, also those in which a pod was kept for the sake of its kill."""
        changed, self._touched = self._touched | seen.news.namespaces | self._haunted, set()
        changed |= {kill.what.namespace for kill in seen.news.kills}
        changed |= {key[0] for key in self._waiting.fetching ^ waiting.fetching}
        changed |= {key[0] for key in self._waiting.without ^ waiting.without}
        changed |= {target.namespace for target, answer in scales.items() if self._scales.get(target) != answer}
        return changed

    def restore(self, rows: Sequence[SavedRow], now: float, *, stored: bool) -> Mapping[RowKey, InvalidCheckpoint]:
        """Take in history, from checkpoints or from elsewhere; the answer is what could not be."""
        refused = self.model.restore_all(rows)
        if not stored:
            self.model.mark_unsaved(self.model.find([row.key for row in rows if row.key not in refused]), now)
        return refused

    def take_in(self, samples: Samples, kills: Sequence[PodOomKill], now: float) -> tuple[IngestResult, OomRecord]:
        """Take in usage and out-of-memory kills."""
        return self.model.ingest(samples, now), self.model.record_ooms([kill.what for kill in kills], now)

    def collect(self, now: float) -> list[RowKey]:
        """Forget what is gone for good; the answer is which containers of VPAs that are still served."""
        gone = self.model.collect(self._served.keys() | self._with_totals, now)
        return [key for key in gone if (key.namespace, key.vpa) in self._served]

    def recommend(self, now: float, watch: AmountsObserver | None = None) -> PassResult:
        """What all VPAs should say, and which statuses are to be written for it; `watch` sees amounts come about."""
        return run_pass(self.model.view(), self.board, self._recommenders, self._pipeline, now, watch=watch)

    def published(self, result: PassResult, written: Sequence[tuple[VpaStatusWrite, str]], now: float) -> LastPass:
        """Take note of statuses that were written, each with the version that made; the answer is what to remember."""
        self.board.all_published(written, now)
        return LastPass.of(result, self.board, (write for write, _ in written), now)

    def due(self, limit: int, now: float) -> list[SavedRow]:
        """Rows whose checkpoints are to be written; VPAs that wait for their history come later."""
        # Those that wait must not take the places of those that do not.
        most = self.model.sizes().rows if self._waiting.fetching else limit
        rows = self.model.due(now, most)
        keys = self.model.keys(rows)
        # Checkpoints of a VPA that somebody else serves are theirs.
        self._mark([key for key in keys if (key.namespace, key.vpa) not in self._served], now)
        chosen = [at for at, key in enumerate(keys) if self._may_save((key.namespace, key.vpa))]
        return self.model.saved(rows[chosen[:limit]], now)

    def saved(self, keys: Sequence[RowKey], now: float) -> None:
        """Take note of checkpoints that were written."""
        self._mark(keys, now)

    def _mark(self, keys: Sequence[RowKey], now: float) -> None:
        rows = self.model.find(keys)
        self.model.mark_saved(rows[rows >= 0], now)

    def totals(self, now: float) -> list[HvpaTotals]:
        """What Hvpas should know of whole workloads whose VPAs do not say it, where it is not what they know."""
        if not self._scope.keeps_totals:
            return []
        governed = {key: vpa for key in sorted(self._with_totals) if (vpa := self._without_totals(key)) is not None}
        if not governed:
            return []
        recommender = self._recommenders.get(DEFAULT_RECOMMENDER) or DefaultRecommender(self._estimates)
        sums = compute_totals(self.model.view(), recommender, governed, now)
        found = (HvpaTotals.of(self._rosters[key[0]].hvpas[key[1]], total) for key, total in sums.items())
        return [each for each in found if each.differs]

    def _without_totals(self, key: ObjectKey) -> GovernedVpa | None:
        """A VPA under an Hvpa whose own status has no totals; None if it has, or if it is about to have them."""
        roster = self._rosters[key[0]]
        effective, vpa = roster.effective[key[1]], self._vpas.get(*key) if self._vpas is not None else None
        ours = effective.recommender == DEFAULT_RECOMMENDER and DEFAULT_RECOMMENDER in self._scope.recommenders
        if key[1] in roster.publishing and (ours or publishes_totals(vpa)):
            return None
        return GovernedVpa(effective, None if ours else read_targets(vpa))

    def namespaces(self) -> list[str]:
        """Where there are served VPAs."""
        return sorted({namespace for namespace, _ in self._served})

    def selectors(self) -> list[tuple[ObjectKey, Selector, tuple[str, ...]]]:
        """The served VPAs that govern pods, with the selectors of their targets and the names of the pods."""
        return [
            ((namespace, claim.name), claim.selector, tuple(pods[claim.name]))
            for namespace, roster in self._rosters.items()
            for pods in [roster.governance.by_governor()]
            for claim in roster.claims
            if claim.selector and claim.name in pods and (namespace, claim.name) in self._served
        ]

    def past(self, seen: RecommenderSnapshot, wanted: frozenset[ObjectKey]) -> BackfillRequest:
        """What it takes to read the history of VPAs from a source that knows pods alone."""
        namespaces: dict[str, NamespaceBackfill] = {}
        tunings: dict[RowKey, Tuning] = {}
        for namespace in {key[0] for key in wanted} & self._rosters.keys():
            roster = self._rosters[namespace]
            governed = select_governed_pods(roster, seen.pods.by(BY_NAMESPACE, namespace), lambda _: True)
            containers = group_containers_by_vpa(list_followed_pods(governed))
            namespaces[namespace] = NamespaceBackfill(
                roster.claims,
                roster.governance.governor,
                {vpa: frozenset(names) for (_, vpa), names in containers.items()},
            )
            for key, names in containers.items():
                tunings |= {RowKey(*key, name): each for name, each in self._kept.tunings(key, names).items() if each}
        with_history = frozenset(key for key in wanted if needs_history(self._served[key], self._recommenders))
        return BackfillRequest(wanted, namespaces, self.model.settings, tunings, with_history)

    def _retarget(self, key: ObjectKey, target: TargetRef) -> None:
        """Begin anew for a VPA that was pointed at something else: what another workload used says nothing of it."""
        if not self._targets.setdefault(key, target).is_same(target):
            self._targets[key] = target
            self.model.abandon(*key)

    def _drop(self, key: ObjectKey, *, is_gone: bool) -> None:
        """Serve a VPA no longer: it is gone, for a moment perhaps, or somebody else serves it."""
        if self._served.pop(key, None) is None:
            return
        self._asks_anew = True
        self._touched.add(key[0])
        self._targets.pop(key, None)
        self._kept.forget(key)
        self.board.drop(*key)
        if not is_gone:
            self.model.abandon(*key)

    def _may_save(self, key: ObjectKey) -> bool:
        return key in self._served and key not in self._waiting.fetching

    def _under_hvpas(self) -> Iterator[ObjectKey]:
        for namespace, roster in self._rosters.items():
            yield from ((namespace, name) for name in roster.hvpas)

    def _restarting(self, namespace: str, governed: Sequence[tuple[ObservedPod, str]]) -> dict[str, set[str]]:
        """By VPA, the containers that it should boost and that a change of CPU restarts."""
        boosting = {
            name: served.effective
            for name in {vpa for _, vpa in governed}
            if (served := self._served.get((namespace, name))) is not None and served.effective.boosts
        }
        found: dict[str, set[str]] = {}
        for pod, vpa in governed if boosting else ():
            if (meaning := boosting.get(vpa)) is None:
                continue
            for container in pod.spec.running:
                if container.restarts_on_cpu and meaning.container(container.name).boost is not None:
                    found.setdefault(vpa, set()).add(container.name)
        return found

    def _state(self, namespace: str, roster: NamespaceGovernance, restarting: Mapping[str, Collection[str]]) -> None:
        for name, pods in roster.governance.matched.items():
            if (namespace, name) not in self._served:
                continue
            problem = roster.problems.get(name)
            boost_reason, boost_problem = self._boost_problem((namespace, name), restarting.get(name, ()))
            state = VpaState(
                pods=pods,
                problem=problem.message if problem else "",
                problem_reason=problem.reason.code if problem else "",
                rivals=roster.governance.rivals.get(name, ()),
                is_outranked=roster.is_outranked(name),
                fetching_history=(namespace, name) in self._waiting.fetching,
                history_problem=self._waiting.problem if (namespace, name) in self._waiting.without else "",
                boost_problem=boost_problem,
                boost_reason=boost_reason,
                publishes_totals=name in roster.publishing,
            )
            self.board.state(namespace, name, state)

    def _boost_problem(self, key: ObjectKey, restarting: Collection[str]) -> tuple[str, str]:
        """Why containers are not boosted although the VPA asks for it, in one word and in a sentence."""
        if not self._gates.cpu_startup_boost or not self._served[key].effective.boosts:
            return "", ""
        if not self.can_boost:
            return RESIZE_NOT_SERVED.code, _RESIZE_NOT_SERVED_MESSAGE
        if restarting:
            return RESIZE_RESTARTS.code, _RESIZE_RESTARTS_MESSAGE.format(", ".join(sorted(restarting)))
        return "", ""
