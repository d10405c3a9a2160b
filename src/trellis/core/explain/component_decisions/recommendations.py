"""Runs a pass of the recommender over the VPAs of one namespace, from the collected state, with a trace.

History comes from checkpoints, as after a restart. Where a VPA has none, series that were collected take their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.resolve import resolve_vpa
from trellis.base.errors import InvalidCheckpoint
from trellis.core.cluster.oom_kill_detection import find_oom_kills, read_eviction
from trellis.core.cluster.state import ClusterState
from trellis.core.cluster.store import BY_NAMESPACE, ObjectStore, index_by_namespace, key_of
from trellis.core.explain.component_decisions.settings import CollectedSettings
from trellis.core.recommend.engine import PassWrites, RecommenderEngine
from trellis.core.recommend.explanations import LastPass, TargetTrace
from trellis.core.recommend.registry import build_recommenders, create_built_in_recommenders
from trellis.core.recommend.state.governed_pods import (
    NamespaceGovernance,
    build_governance,
    build_owners,
    select_namespace,
)
from trellis.core.recommend.state.snapshot import (
    ClusterObservation,
    FetchedHistory,
    FetchedUsage,
    PodOomKill,
    RecommenderScope,
    RecommenderSnapshot,
    SnapshotChanges,
)
from trellis.core.usage.checkpoints.format import KEPT_FROM_ANNOTATION, SavedRow, read_checkpoint
from trellis.core.usage.columns import RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples
from trellis.core.usage.view import RowsView

_PENDING: Final = "Pending"


class RecommendationEvidence(msgspec.Struct, frozen=True):
    """The decisions of a pass, a trace of its amounts, and its input.

    `elsewhere` are the recommenders that VPAs name and that do not run here. `unreadable` are the problems of
    checkpoints by name, and `checkpointed` are the rows whose history came from one.
    """

    last: LastPass
    trace: TargetTrace
    view: RowsView
    namespace_governance: NamespaceGovernance
    elsewhere: frozenset[str]
    checkpointed: frozenset[RowKey]
    unreadable: Mapping[str, str]


def run_recommender(
    collected: ClusterState, namespace: str, components: CollectedSettings, now: float
) -> RecommendationEvidence:
    """One pass over the VPAs of a namespace."""
    named = {resolve_vpa(vpa).recommender for vpa in collected.vpas.by_index(BY_NAMESPACE, namespace)}
    served = create_built_in_recommenders(components.estimates).keys() | set(components.names)
    names = sorted(served)
    recommenders = build_recommenders(names, components.estimates, components.presets)
    snapshot = _build_snapshot(collected, namespace)
    observed = ClusterObservation(
        snapshot,
        RecommenderScope(frozenset(names), frozenset({namespace})),
        recommenders,
        collected.scales,
        collected.about.resizes_pods,
    )
    engine = RecommenderEngine(components.usage, components.pipeline, components.gates)
    engine.begin(observed)
    saved, unread = _read_checkpoints(collected, namespace, now)
    governance = build_governance(*select_namespace(snapshot, namespace), build_owners(snapshot, collected.scales))
    refused = UsageModel(components.usage).restore_all(saved)
    checkpointed = frozenset(row.key for row in saved if row.key not in refused)
    past = _read_history(collected, namespace, governance, {key.vpa for key in checkpointed})
    fetched = FetchedUsage(_read_usage(collected), [FetchedHistory(saved, from_checkpoints=True)], past=list(past))
    trace = TargetTrace()
    decision = engine.finish(fetched, now, on_amounts=trace)
    return RecommendationEvidence(
        engine.commit(decision, PassWrites(), now),
        trace,
        engine.model.view(),
        governance,
        frozenset(named - served),
        checkpointed,
        unread | {f"{key.vpa}-{key.container}": str(error) for key, error in refused.items()},
    )


def _build_snapshot(collected: ClusterState, namespace: str) -> RecommenderSnapshot:
    """The namespace as the recommender watches it: without pods that run nothing yet."""
    running = [pod for pod in collected.observed_pods.by_index(BY_NAMESPACE, namespace) if pod.status.phase != _PENDING]
    pods: ObjectStore[ObservedPod] = ObjectStore({BY_NAMESPACE: index_by_namespace})
    for pod in running:
        pods.put(key_of(pod), pod)
    snapshot = pods.snapshot()
    kills = [PodOomKill(kill, pod) for pod in running for kill in find_oom_kills(None, pod)]
    kills += [
        PodOomKill(kill, snapshot.get(kill.namespace, kill.pod))
        for event in collected.events.by_index(BY_NAMESPACE, namespace)
        for kill in read_eviction(event)
    ]
    changes = SnapshotChanges(namespaces=frozenset({namespace}), kills=tuple(kills))
    return RecommenderSnapshot(collected.vpas, snapshot, collected.hvpas, collected.workloads, changes)


def _read_checkpoints(collected: ClusterState, namespace: str, now: float) -> tuple[list[SavedRow], dict[str, str]]:
    checkpoints: list[SavedRow] = []
    unread: dict[str, str] = {}
    for checkpoint in collected.checkpoints.by_index(BY_NAMESPACE, namespace):
        if KEPT_FROM_ANNOTATION in checkpoint.metadata.annotations:
            continue
        try:
            checkpoints.append(read_checkpoint(checkpoint, now))
        except InvalidCheckpoint as error:
            unread[checkpoint.metadata.name] = str(error)
    rejected = collected.checkpoints.rejected.items()
    return checkpoints, unread | {name: problem for (where, name), problem in rejected if where == namespace}


def _read_usage(collected: ClusterState) -> Samples:
    usage = collected.usage
    return Samples(usage.namespaces, usage.pods, usage.containers, usage.times, usage.cpu, usage.memory)


def _read_history(
    collected: ClusterState, namespace: str, governance: NamespaceGovernance, with_checkpoints: set[str]
) -> Iterator[Samples]:
    """Series of pods whose VPA has no checkpoint: what is in both would count twice."""
    for series in collected.history:
        governor = governance.governance.governor.get(series.pod) if series.namespace == namespace else None
        if governor is None or governor in with_checkpoints or not len(series):
            continue
        # The newest sample is among what is used now, unless it is newer than that.
        order = np.argsort(series.times, kind="stable")
        names = ([namespace] * len(series), [series.pod] * len(series), [series.container] * len(series))
        yield Samples(*names, series.times[order], series.cpu[order], series.memory[order])
