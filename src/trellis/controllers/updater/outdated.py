"""May an action still be carried out, after it has waited in line?

Not if its workload has become another meanwhile: somebody has frozen it, what governs it has changed, or a pod beside
it has gone on which the budget counted.
"""

from __future__ import annotations

from collections.abc import Collection

from trellis.api.kube.pods import READY, Pod
from trellis.controllers.updater.knowledge import Knowledge
from trellis.core.resize.freezing import Freeze
from trellis.core.resize.gathering import Gathered, Gathering
from trellis.core.sizing.governors import Governor


def why_outdated(
    knowledge: Knowledge, gathered: Gathered, uid: str, now: float, *, unasked: Collection[str]
) -> str | None:
    """Why an action on a pod must not be carried out any more, if so; pods that are `unasked` have no say."""
    known = knowledge.gathering
    governor, frozen = _governance(known, gathered, now)
    if governor is not gathered.governor:
        return "what governs the pod has changed"
    if frozen is not None:
        return str(frozen)
    for pod in gathered.pods:
        is_it = pod.metadata.uid == uid
        if is_it or pod.metadata.uid not in unasked:
            found = knowledge.pod(pod.metadata.namespace, pod.metadata.name)
            found = known.echoes.as_it_will_be(found, now) if found is not None else None
            if _service(found) != _service(pod):
                return "the pod has changed" if is_it else f"the pod {pod.metadata.name} beside it has changed"
    return None


def _governance(known: Gathering, gathered: Gathered, now: float) -> tuple[Governor | None, Freeze | None]:
    """What governs the workload now, and what freezes it."""
    if not gathered.governor.is_object:
        current = known.gather(gathered.workload, now)
        return (current.governor, current.frozen) if current is not None else (None, None)
    governing = known.governed.find(gathered.workload)
    if governing is None:
        return None, None
    return governing.governor, known.frozen(gathered.workload[0], governing)


def _service(pod: Pod | None) -> tuple[str, str, str]:
    """What budgets ask of a pod; one that is going may as well be gone."""
    if pod is None or pod.metadata.deletion_timestamp is not None:
        return "", "", ""
    ready = pod.status.condition(READY)
    return pod.metadata.uid, pod.status.phase, ready.status if ready else ""
