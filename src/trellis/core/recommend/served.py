"""What is known of a VerticalPodAutoscaler that is served, and what is to be written into its status?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from trellis.api.resolve import EffectiveVpa, resolve_vpa
from trellis.api.vpa import VerticalPodAutoscaler, VerticalPodAutoscalerStatus
from trellis.base.reason import Reason
from trellis.core.usage.columns import FloatColumn

NO_ANNOTATIONS: Mapping[str, str] = {}


class ServedVpa(msgspec.Struct, frozen=True, gc=False):
    """The object as it was last seen. `created` is seconds since the epoch; `recommender` is the name it chose."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created: float
    effective: EffectiveVpa
    recommender: str
    annotations: Mapping[str, str] = NO_ANNOTATIONS
    status: VerticalPodAutoscalerStatus | None = None

    def sizes_any(self, containers: Iterable[str]) -> bool:
        """Whether any of its containers is to be sized; while it has none, one may come that is."""
        meanings = [self.effective.container(name) for name in containers]
        return not meanings or any(each.scaled and each.controlled for each in meanings)


def served_vpa(vpa: VerticalPodAutoscaler, known: ServedVpa | None) -> ServedVpa:
    """What is to be known of a VPA. Its meaning changes with its generation alone, and is costly to find."""
    metadata = vpa.metadata
    same = known is not None and (known.uid, known.generation) == (metadata.uid, metadata.generation)
    effective = known.effective if known is not None and same else resolve_vpa(vpa)
    created = metadata.creation_timestamp
    return ServedVpa(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
        created=created.timestamp() if created else math.nan,
        effective=effective,
        recommender=effective.recommender,
        annotations=metadata.annotations,
        status=vpa.status,
    )


class VpaState(msgspec.Struct, frozen=True, gc=False):
    """What the cluster says about its target now.

    `pods` is how many it governs. `problem` is why its target cannot be used, empty if it can, and `problem_reason`
    the same in one word. `rivals` are objects that govern pods it matches too: older ones, or where it `is_outranked`
    such as act while it does not. While `fetching_history` what is published stays; `history_problem` is why past usage
    could not be fetched, `boost_problem` why containers are not boosted although it asks for that, and `boost_reason`
    the same in one word. `publishes_totals` is set where an Hvpa reads the status.
    """

    pods: int
    problem: str = ""
    problem_reason: str = ""
    rivals: tuple[str, ...] = ()
    is_outranked: bool = False
    fetching_history: bool = False
    history_problem: str = ""
    boost_problem: str = ""
    boost_reason: str = ""
    publishes_totals: bool = False


class StatusWrite(msgspec.Struct, frozen=True, gc=False):
    """A status that should be written, and why.

    `status` is whole, as the document of a merge patch: what should vanish is null. `first` is the object's first
    recommendation ever, `created` when it was made. The rest is for the board, which is told once it is written.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    created: float
    status: dict[str, Any]
    first: bool
    reasons: tuple[Reason, ...]
    containers: tuple[str, ...]
    amounts: FloatColumn
    truth: int
    said: int
