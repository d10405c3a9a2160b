"""What do metrics tell of a pass? How many nodes, pods and Buffers there are of each verdict, and more of Buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trellis.controllers.nodes import metrics as named
from trellis.core.nodes.groups import GroupState, InstanceState
from trellis.core.nodes.planning import Plans
from trellis.core.nodes.verdicts import BufferVerdict, PodsVerdict
from trellis.providers.protocol import Groups
from trellis.runtime.metrics import GaugeSpec, Metrics


class Counting:
    """Sets and counts. `most` Buffers have figures of their own."""

    def __init__(self, metrics: Metrics, most: int) -> None:
        self._metrics = metrics
        self._most = most

    def planned(
        self, groups: Groups, plans: Plans, pods: Sequence[PodsVerdict], buffers: Sequence[BufferVerdict]
    ) -> None:
        """Both plans have been made, and this is said of pods and Buffers since orders were answered."""
        pending: Counter[tuple[str, ...]] = Counter()
        for each in pods:
            pending[(each.said.reason.code,)] += len(each.pods)
        self._set(named.PENDING, pending)
        self._set(named.NODES, Counter((str(each.outcome), each.said.reason.code) for each in plans.down.nodes))
        self._set(named.UNREADABLE, Counter((kind,) for kind, _ in plans.problems))
        self._set(named.GROUP_PROBLEMS, Counter((each.said.reason.code,) for each in groups.problems))
        self._metrics.set_all(named.INSTANCES, _instances(groups.states))
        for verdict in self.observed(buffers):
            self._metrics.add(named.HITS, verdict.hits, *verdict.key)
            self._metrics.add(named.MISSES, verdict.misses, *verdict.key)

    def observed(self, buffers: Sequence[BufferVerdict]) -> Sequence[BufferVerdict]:
        """This is said of Buffers; those that have figures of their own. Hits and misses are counted by plans alone."""
        self._set(named.BUFFERS, Counter((each.said.reason.code,) for each in buffers))
        own = sorted(buffers, key=lambda each: each.key)[: self._most]
        self._metrics.keep(named.BUFFER, {each.key for each in own})
        for each in own:
            self._metrics.set(named.CHUNKS, each.chunks, *each.key)
            self._metrics.set(named.PROVISIONED, each.on_ready, *each.key)
            self._metrics.set(named.PRICE, each.price, *each.key)
        return own

    def _set(self, spec: GaugeSpec, counts: Counter[tuple[str, ...]]) -> None:
        self._metrics.set_all(spec, {labels: float(count) for labels, count in counts.items()})


def _instances(states: Sequence[GroupState]) -> dict[tuple[str, ...], float]:
    return {(each.group.name, str(state)): float(each.count(state)) for each in states for state in InstanceState}
