"""What would the recommender say of one namespace, told what was collected? Its own pass, watched.

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
from trellis.core.explain.settings import Components
from trellis.core.model.collected import Collected
from trellis.core.model.keys import BY_NAMESPACE, in_namespace, key_of
from trellis.core.model.ooms import evicted, observed
from trellis.core.model.store import Store
from trellis.core.recommend.built_in import built_in_recommenders, recommenders_called
from trellis.core.recommend.knowledge import Knowledge
from trellis.core.recommend.last_pass import LastPass
from trellis.core.recommend.roster import Roster, in_one_namespace, owners_in, roster_of
from trellis.core.recommend.scope import Scope, Waiting
from trellis.core.recommend.seen import Kill, News, Seen
from trellis.core.recommend.tracing import Trace
from trellis.core.usage.checkpoints import KEPT_FROM, SavedRow, read_checkpoint
from trellis.core.usage.columns import RowKey
from trellis.core.usage.samples import Samples
from trellis.core.usage.view import RowsView

_PENDING: Final = "Pending"


class Recommended(msgspec.Struct, frozen=True):
    """What a pass decided, how amounts came about, and what it went by.

    `elsewhere` are the recommenders that VPAs name and nobody here can ask. `unread` is what is wrong with checkpoints,
    by their names; `checkpointed` are the rows whose history came from one.
    """

    last: LastPass
    trace: Trace
    view: RowsView
    roster: Roster
    elsewhere: frozenset[str]
    checkpointed: frozenset[RowKey]
    unread: Mapping[str, str]


def recommended_in(collected: Collected, namespace: str, components: Components, now: float) -> Recommended:
    """One pass over the VPAs of a namespace."""
    wanted = {resolve_vpa(vpa).recommender for vpa in collected.vpas.by(BY_NAMESPACE, namespace)}
    known = built_in_recommenders(components.estimates).keys() | set(components.names)
    names = sorted(known)
    recommenders = recommenders_called(names, components.estimates, components.presets)
    knowledge = Knowledge(components.usage, components.pipeline, recommenders, components.gates)
    knowledge.can_boost = collected.about.resizes_pods
    seen = _seen(collected, namespace)
    knowledge.load_vpas(seen, Scope(frozenset(names), namespace), all_of_them=True)
    saved, unread = _saved(collected, namespace, now)
    refused = knowledge.restore(saved, now, stored=True)
    knowledge.load_pods(seen, collected.scales, Waiting(), now)
    roster = roster_of(*in_one_namespace(seen, namespace), owners_in(seen, collected.scales))
    checkpointed = frozenset(row.key for row in saved if row.key not in refused)
    for samples in _samples(collected, namespace, roster, {key.vpa for key in checkpointed}):
        knowledge.take_in(samples, (), now)
    knowledge.take_in(_usage(collected), seen.news.kills, now)
    trace = Trace()
    result = knowledge.recommend(now, trace)
    return Recommended(
        knowledge.published(result, (), now),
        trace,
        knowledge.model.view(),
        roster,
        frozenset(wanted - known),
        checkpointed,
        unread | {f"{key.vpa}-{key.container}": str(error) for key, error in refused.items()},
    )


def _seen(collected: Collected, namespace: str) -> Seen:
    """The namespace as the recommender watches it: pods that run nothing yet are not looked at."""
    there = [each for each in collected.observed_pods.by(BY_NAMESPACE, namespace) if each.status.phase != _PENDING]
    pods: Store[ObservedPod] = Store({BY_NAMESPACE: in_namespace})
    for pod in there:
        pods.put(key_of(pod), pod)
    snapshot = pods.snapshot()
    kills = [Kill(kill, pod) for pod in there for kill in observed(None, pod)]
    kills += [
        Kill(kill, snapshot.get(kill.namespace, kill.pod))
        for event in collected.events.by(BY_NAMESPACE, namespace)
        for kill in evicted(event)
    ]
    news = News(namespaces=frozenset({namespace}), kills=tuple(kills))
    return Seen(collected.vpas, snapshot, collected.hvpas, collected.workloads, news)


def _saved(collected: Collected, namespace: str, now: float) -> tuple[list[SavedRow], dict[str, str]]:
    found: list[SavedRow] = []
    unread: dict[str, str] = {}
    for checkpoint in collected.checkpoints.by(BY_NAMESPACE, namespace):
        if KEPT_FROM in checkpoint.metadata.annotations:
            continue
        try:
            found.append(read_checkpoint(checkpoint, now))
        except InvalidCheckpoint as error:
            unread[checkpoint.metadata.name] = str(error)
    rejected = collected.checkpoints.rejected.items()
    return found, unread | {name: why for (where, name), why in rejected if where == namespace}


def _usage(collected: Collected) -> Samples:
    usage = collected.usage
    return Samples(usage.namespaces, usage.pods, usage.containers, usage.times, usage.cpu, usage.memory)


def _samples(collected: Collected, namespace: str, roster: Roster, with_checkpoints: set[str]) -> Iterator[Samples]:
    """Series of pods whose VPA has no checkpoint: what is in both would count twice."""
    for each in collected.history:
        governor = roster.governance.governor.get(each.pod) if each.namespace == namespace else None
        if governor is None or governor in with_checkpoints or not len(each):
            continue
        # The newest sample is among what is used now, unless it is newer than that.
        order = np.argsort(each.times, kind="stable")
        names = ([namespace] * len(each), [each.pod] * len(each), [each.container] * len(each))
        yield Samples(*names, each.times[order], each.cpu[order], each.memory[order])
