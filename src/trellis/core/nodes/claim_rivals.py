"""Of pods that wait for a claim which is for one pod alone, who would have it?

The most important, and of those the first by name; but none that no node could help, for it would keep the others
from theirs. For those that come after it no node helps as long as it waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from trellis.core.fit import Demand, fits
from trellis.core.model.keys import Key
from trellis.core.nodes.needs import rooms_for
from trellis.core.nodes.pods import PendingPod
from trellis.core.nodes.trial import Trial


def one_for_each_claim(pods: Iterable[PendingPod], trial: Trial) -> list[PendingPod]:
    """All pods; those of which another has the claim ask for a volume that can be had nowhere."""
    found = [*pods]
    with_claims = [each for each in found if each.alone]
    waiting = Counter(claim for each in with_claims for claim in each.alone)
    rivals = [each for each in with_claims if any(waiting[claim] > 1 for claim in each.alone)]
    taken: set[Key] = set()
    late: dict[Key, PendingPod] = {}
    # Equal demands are one object, as everywhere.
    demands: dict[int, Demand] = {}
    for each in sorted(rivals, key=lambda each: (-each.priority, each.key)):
        if not taken.isdisjoint(each.alone):
            demand = demands.setdefault(id(each.demand), _in_vain(each.demand))
            late[each.key] = msgspec.structs.replace(each, demand=demand)
        elif _could_be_helped(each.demand, trial):
            taken.update(each.alone)
    return [late.get(each.key, each) for each in found] if late else found


def _in_vain(demand: Demand) -> Demand:
    return msgspec.structs.replace(demand, volumes=(*demand.volumes, ()))


def _could_be_helped(demand: Demand, trial: Trial) -> bool:
    """Whether a node has room for such a pod, or a new one would."""
    running = trial.running
    return bool(rooms_for(trial.templates, demand).any() or fits(trial.table, demand, running.used, running.near).any())
