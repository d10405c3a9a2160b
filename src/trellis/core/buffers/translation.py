"""Which pods does a Buffer stand for, as an answer: how many, of which shape, and what there is to say.

Quotas are shared by all Buffers of a namespace, whatever their kind, and so are applied to translations together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from trellis.api.kube.policies import ResourceQuota
from trellis.api.kube.slices import NOTHING, Labels
from trellis.base.reason import Reason, Severity
from trellis.core.buffers.quota_usage import QuotaUsage
from trellis.core.buffers.quotas import Allowance, Key, QuotaClaim, allot
from trellis.core.buffers.said import Said

WITHIN_QUOTAS = Reason("WithinQuotas", "No quota of the namespace keeps the Buffer from having all of its chunks.")
LIMITED_BY_QUOTAS = Reason("LimitedByQuotas", "Quotas of the namespace leave room for fewer chunks.", Severity.WARNING)


class Translation(msgspec.Struct, frozen=True):
    """The pods of one Buffer.

    `wanted` is what its capacity asks for, `chunks` what is left of that; `limited_from` is what quotas, `limited_by`
    by name, did not leave. Without `pod_spec` it is not ready, and `ready` says why. `labels` are those that the pods
    will have; rules about other pods go by them. `on_top` says that chunks are kept beside what runs; otherwise they
    are counted as if nothing ran. `next_change` is when the schedule makes a difference next.
    """

    wanted: int
    chunks: int
    ready: Said
    is_ready: bool = False
    pod_spec: Mapping[str, Any] | None = None
    labels: Labels = NOTHING
    usage: QuotaUsage | None = None
    limited_from: int = 0
    limited_by: tuple[str, ...] = ()
    notes: tuple[Said, ...] = ()
    on_top: bool = True
    next_change: float | None = None

    @property
    def limited(self) -> Said | None:
        """What quotas cost it; None if they cost it nothing."""
        if not self.limited_by:
            return None
        names = ", ".join(self.limited_by)
        return Said(LIMITED_BY_QUOTAS, f"chunks limited from {self.limited_from} to {self.chunks} by quotas: {names}")


def within_quotas(translation: Translation, allowance: Allowance) -> Translation:
    """The same with what quotas leave of it."""
    if allowance.chunks >= translation.chunks:
        return translation
    return msgspec.structs.replace(
        translation, chunks=allowance.chunks, limited_from=translation.chunks, limited_by=allowance.by
    )


def settled(made: Mapping[Key, tuple[float, Translation]], quotas: Iterable[ResourceQuota]) -> dict[Key, Translation]:
    """All translations of a namespace within its quotas; each comes with the time at which its Buffer was created."""
    claims = [
        QuotaClaim(key, created, each.chunks, each.usage, each.on_top)
        for key, (created, each) in made.items()
        if each.usage is not None
    ]
    allowed = allot(claims, quotas)
    return {key: within_quotas(each, allowed[key]) if key in allowed else each for key, (_, each) in made.items()}
