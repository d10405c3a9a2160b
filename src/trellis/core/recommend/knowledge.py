"""What is known of all VPAs, and what follows from it? The part of a pass that needs no cluster.

It is told what was seen, step by step, and says what to write. Told the same it says the same, whichever process it
runs in: nothing may depend on the order of a set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from trellis.api.gates import Gates
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.resolve import DEFAULT_RECOMMENDER
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.base.errors import InvalidCheckpoint
from trellis.base.selectors import Selector
from trellis.core.model.keys import BY_NAMESPACE, Key
from trellis.core.model.owners import Owners, ScaleAnswer, TargetRef
from trellis.core.model.pods import where_resources_stand
from trellis.core.model.store import Snapshot
from trellis.core.recommend.board import Board
from trellis.core.recommend.conditions import RESIZE_NOT_SERVED, RESIZE_RESTARTS
from trellis.core.recommend.default import DefaultRecommender
from trellis.core.recommend.finishing import Watch
from trellis.core.recommend.kept import Kept, containers_of, needs_history
from trellis.core.recommend.last_pass import LastPass
from trellis.core.recommend.past import Past, PastOf
from trellis.core.recommend.pipeline import recommend
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.results import PassResult
from trellis.core.recommend.roster import (
    Roster,
    followed_pods,
    governed_pods,
    in_one_namespace,
    owners_in,
    roster_of,
    target_of_vpa,
)
from trellis.core.recommend.scope import Scope, Waiting
from trellis.core.recommend.seen import Kill, Seen
from trellis.core.recommend.served import ServedVpa, StatusWrite, VpaState, served_vpa
from trellis.core.recommend.settings import DefaultSettings, PipelineSettings
from trellis.core.recommend.totals import GovernedVpa, HvpaTotals, publishes_totals, targets_of, totals_of
from trellis.core.usage.checkpoints import SavedRow
from trellis.core.usage.columns import RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.ooms import OomRecord
from trellis.core.usage.samples import Ingested, Samples
from trellis.core.usage.settings import Tuning, UsageSettings

_NO_RESIZE: Final = (
    "no pod is boosted: this API server cannot resize pods in place, so that a boost would last for a pod's life; "
    "startupBoost needs Kubernetes 1.33 or later"
)

_RESTARTS: Final = (
    "containers that are not boosted: {}; their resizePolicy for cpu is RestartContainer, so that the end of the boost "
    "would restart them; set it to NotRequired"
)


class Knowledge:
    """Usage, and the VPAs it is kept for."""

    def __init__(
        self,
        usage: UsageSettings,
        pipeline: PipelineSettings,
        recommenders: Mapping[str, Recommender],
        gates: Gates,
        estimates: DefaultSettings | None = None,
    ) -> None:
        """The `estimates` are those of the totals for Hvpas where `default` is served elsewhere."""
        self.model = UsageModel(usage)
        self._estimates = estimates
        self._vpas: Snapshot[VerticalPodAutoscaler] | None = None
        self.board = Board()
        self._pipeline = pipeline
        self._recommenders = recommenders
        self._gates = gates
        self.can_boost = True
        """Whether the API server could take a boost back."""
        self._scope = Scope(frozenset())
        self._served: dict[Key, ServedVpa] = {}
        self._kept = Kept(self.model, self._served, gates)
        self._targets: dict[Key, TargetRef] = {}
        self._touched: set[str] = set()
        self._rosters: dict[str, Roster] = {}
        self._scales: Mapping[TargetRef, ScaleAnswer] = {}
        self._waiting = Waiting()
        self._with_totals: set[Key] = set()
        self._haunted: set[str] = set()
        self._asks_anew = True

    @property
    def served(self) -> frozenset[Key]:
        """The VPAs that are advised now."""
        return frozenset(self._served)

    def answered_by(self, recommenders: Mapping[str, Recommender]) -> None:
        """Who answers to which name from now on."""
        self._recommenders = recommenders
        self._asks_anew = True

    def load_vpas(self, seen: Seen, scope: Scope, *, all_of_them: bool) -> frozenset[Key]:
        """Take in VPAs that changed, or all; the answer is which are served now and were not before."""
        self._scope = scope
        self._vpas = seen.vpas
        new: set[Key] = set()
        for key in sorted(seen.vpas.objects.keys() | self._served.keys()) if all_of_them else sorted(seen.news.vpas):
            vpa = seen.vpas.get(*key)
            known = self._served.get(key)
            served = served_vpa(vpa, known) if vpa is not None and scope.covers(key[0]) else None
            if vpa is None or served is None or served.recommender not in scope.recommenders:
                self._drop(key, is_gone=vpa is None)
                continue
            if known is None or known.uid != served.uid:
                new.add(key)
            # Most changes are of a status, which asks nobody else.
            if known is None or known.effective is not served.effective or known.annotations != served.annotations:
                self._asks_anew = True
            self._retarget(key, target_of_vpa(vpa))
            self._served[key] = served
            self.board.put(served)
        self._touched |= {key[0] for key in new}
        if self._asks_anew:
            self._asks_anew = False
            self._kept.keep_for(self._recommenders)
        return frozenset(new)

    def load_pods(
        self, seen: Seen, scales: Mapping[TargetRef, ScaleAnswer], waiting: Waiting, now: float
    ) -> Counter[str]:
        """Take in pods of namespaces in which something changed; the answer is where their resources were read from."""
        sources: Counter[str] = Counter()
        changed = self._changed(seen, scales, waiting)
        self._scales, self._waiting = scales, waiting
        self._haunted = {kill.what.namespace for kill in seen.news.kills}
        owners = owners_in(seen, scales)
        for namespace in sorted(changed):
            sources += self._load_namespace(namespace, seen, owners, now)
        with_totals = {key for key in self._under_hvpas() if self._follows(key)}
        if with_totals != self._with_totals:
            self._with_totals = with_totals
            self.model.keep_totals(with_totals)
        return sources

    def _load_namespace(self, namespace: str, seen: Seen, owners: Owners, now: float) -> Counter[str]:
        vpas, pods, hvpas = in_one_namespace(seen, namespace)
        if not vpas:
            self._rosters.pop(namespace, None)
            self.model.follow(namespace, [], now)
            return Counter()
        roster = self._rosters[namespace] = roster_of(vpas, pods, hvpas, owners)
        governed = governed_pods(roster, pods, lambda name: self._follows((namespace, name)))
        followed = followed_pods(governed)
        self._state(namespace, roster, self._restarting(namespace, governed))
        self._kept.tune(followed)
        self.model.follow(namespace, followed, now)
        return where_resources_stand(pod for pod, _ in governed)

    def _follows(self, key: Key) -> bool:
        """Whether the usage of a VPA's pods is remembered: it is served, or an Hvpa needs the whole workload's.

        The latter is written by one process alone, whichever recommender serves the VPA.
        """
        if key in self._served:
            return True
        roster = self._rosters.get(key[0])
        return self._scope.keeps_totals and self._scope.covers(key[0]) and roster is not None and key[1] in roster.hvpas

    def _changed(self, seen: Seen, scales: Mapping[TargetRef, ScaleAnswer], waiting: Waiting) -> set[str]:
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

    def take_in(self, samples: Samples, kills: Sequence[Kill], now: float) -> tuple[Ingested, OomRecord]:
        """Take in usage and out-of-memory kills."""
        return self.model.ingest(samples, now), self.model.record_ooms([kill.what for kill in kills], now)

    def collect(self, now: float) -> list[RowKey]:
        """Forget what is gone for good; the answer is which containers of VPAs that are still served."""
        gone = self.model.collect(self._served.keys() | self._with_totals, now)
        return [key for key in gone if (key.namespace, key.vpa) in self._served]

    def recommend(self, now: float, watch: Watch | None = None) -> PassResult:
        """What all VPAs should say, and which statuses are to be written for it; `watch` sees amounts come about."""
        return recommend(self.model.view(), self.board, self._recommenders, self._pipeline, now, watch=watch)

    def published(self, result: PassResult, written: Sequence[tuple[StatusWrite, str]], now: float) -> LastPass:
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
        sums = totals_of(self.model.view(), recommender, governed, now)
        found = (HvpaTotals.of(self._rosters[key[0]].hvpas[key[1]], total) for key, total in sums.items())
        return [each for each in found if each.differs]

    def _without_totals(self, key: Key) -> GovernedVpa | None:
        """A VPA under an Hvpa whose own status has no totals; None if it has, or if it is about to have them."""
        roster = self._rosters[key[0]]
        effective, vpa = roster.effective[key[1]], self._vpas.get(*key) if self._vpas is not None else None
        ours = effective.recommender == DEFAULT_RECOMMENDER and DEFAULT_RECOMMENDER in self._scope.recommenders
        if key[1] in roster.publishing and (ours or publishes_totals(vpa)):
            return None
        return GovernedVpa(effective, None if ours else targets_of(vpa))

    def namespaces(self) -> list[str]:
        """Where there are served VPAs."""
        return sorted({namespace for namespace, _ in self._served})

    def selectors(self) -> list[tuple[Key, Selector, tuple[str, ...]]]:
        """The served VPAs that govern pods, with the selectors of their targets and the names of the pods."""
        return [
            ((namespace, claim.name), claim.selector, tuple(pods[claim.name]))
            for namespace, roster in self._rosters.items()
            for pods in [roster.governance.by_governor()]
            for claim in roster.claims
            if claim.selector and claim.name in pods and (namespace, claim.name) in self._served
        ]

    def past(self, seen: Seen, wanted: frozenset[Key]) -> Past:
        """What it takes to read the history of VPAs from a source that knows pods alone."""
        namespaces: dict[str, PastOf] = {}
        tunings: dict[RowKey, Tuning] = {}
        for namespace in {key[0] for key in wanted} & self._rosters.keys():
            roster = self._rosters[namespace]
            governed = governed_pods(roster, seen.pods.by(BY_NAMESPACE, namespace), lambda _: True)
            containers = containers_of(followed_pods(governed))
            namespaces[namespace] = PastOf(
                roster.claims,
                roster.governance.governor,
                {vpa: frozenset(names) for (_, vpa), names in containers.items()},
            )
            for key, names in containers.items():
                tunings |= {RowKey(*key, name): each for name, each in self._kept.tunings(key, names).items() if each}
        with_history = frozenset(key for key in wanted if needs_history(self._served[key], self._recommenders))
        return Past(wanted, namespaces, self.model.settings, tunings, with_history)

    def _retarget(self, key: Key, target: TargetRef) -> None:
        """Begin anew for a VPA that was pointed at something else: what another workload used says nothing of it."""
        if not self._targets.setdefault(key, target).is_same(target):
            self._targets[key] = target
            self.model.abandon(*key)

    def _drop(self, key: Key, *, is_gone: bool) -> None:
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

    def _may_save(self, key: Key) -> bool:
        return key in self._served and key not in self._waiting.fetching

    def _under_hvpas(self) -> Iterator[Key]:
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

    def _state(self, namespace: str, roster: Roster, restarting: Mapping[str, Collection[str]]) -> None:
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

    def _boost_problem(self, key: Key, restarting: Collection[str]) -> tuple[str, str]:
        """Why containers are not boosted although the VPA asks for it, in one word and in a sentence."""
        if not self._gates.cpu_startup_boost or not self._served[key].effective.boosts:
            return "", ""
        if not self.can_boost:
            return RESIZE_NOT_SERVED.code, _NO_RESIZE
        if restarting:
            return RESIZE_RESTARTS.code, _RESTARTS.format(", ".join(sorted(restarting)))
        return "", ""
