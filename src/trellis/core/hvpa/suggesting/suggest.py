"""Which Hvpa is proposed for a workload, and what would it have cost beside what there is?"""

from __future__ import annotations

from typing import Any

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.api.resolve import resolve_hvpa
from trellis.base.prices import Prices
from trellis.base.reason import Reason
from trellis.core.hvpa.suggesting.lived import LivedWorkload, SuggestingRules
from trellis.core.hvpa.suggesting.manifest import hvpa_manifest
from trellis.core.hvpa.suggesting.outcomes import Outcome, outcome
from trellis.core.hvpa.suggesting.replaying import as_it_was, by_buckets, by_hpa
from trellis.core.hvpa.suggesting.rungs import Rungs, rungs
from trellis.core.hvpa.suggesting.unsuited import NOTHING_GAINED, REPLICA_TOO_LARGE, why_not
from trellis.core.hvpa.views import Meaning


class Suggestion(msgspec.Struct, frozen=True):
    """Buckets for a workload, or the reason why there are none; `manifest` is empty then.

    `now` is what it has cost, `by_hpa` what its HPA alone would, and `by_buckets` what the proposed Hvpa would. The
    HPA's is missing where it does not go by the CPU of whole pods.
    """

    reason: Reason | None = None
    rungs: Rungs | None = None
    manifest: dict[str, Any] = {}
    days: float = 0.0
    utilization: float = 0.0
    now: Outcome | None = None
    by_hpa: Outcome | None = None
    by_buckets: Outcome | None = None


def suggest(workload: LivedWorkload, rules: SuggestingRules, prices: Prices) -> Suggestion:
    """What is proposed for one workload."""
    days = workload.usage.seen.seconds / 86_400.0
    reason = why_not(workload, rules)
    if reason is not None:
        return Suggestion(reason, days=days)
    found = rungs(workload, rules)
    if found is None:
        return Suggestion(REPLICA_TOO_LARGE, days=days)
    document = hvpa_manifest(workload, found, rules)
    meaning = Meaning.of(resolve_hvpa(msgspec.convert(document, Hvpa)))
    seen, base = workload.usage.seen, found.base.memory
    now = outcome(seen, as_it_was(workload), prices)
    then = outcome(seen, by_buckets(workload, meaning, base, rules), prices)
    is_gain = _is_better(then, now)
    return Suggestion(
        reason=None if is_gain else NOTHING_GAINED,
        rungs=found,
        manifest=document if is_gain else {},
        days=days,
        utilization=workload.utilization(rules),
        now=now,
        by_hpa=_by_hpa(workload, base, prices),
        by_buckets=then,
    )


def _is_better(then: Outcome, now: Outcome) -> bool:
    """Cheaper, or less often too little."""
    return then.money < now.money or max(then.cpu_over, then.memory_over) < max(now.cpu_over, now.memory_over)


def _by_hpa(workload: LivedWorkload, base: float, prices: Prices) -> Outcome | None:
    hpa = workload.hpa
    if hpa is None or not hpa.utilization > 0 or not (workload.request[0] > 0 and workload.request[1] > 0):
        return None
    return outcome(workload.usage.seen, by_hpa(workload, hpa, base), prices)
