"""What is known of a VerticalPodAutoscaler that is served, and what is to be written into its status?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trellis.api.resolve import EffectiveVpa
from trellis.api.vpa import VerticalPodAutoscalerStatus
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


class VpaState(msgspec.Struct, frozen=True, gc=False):
    """What the cluster says about its target now.

    `pods` is how many it governs. `problem` is why its target cannot be used, empty if it can, and `problem_reason`
    the same in one word. `rivals` are older objects that govern pods it matches too. While `fetching_history` what is
    published stays; `history_problem` is why past usage could not be fetched, `boost_problem` why
    no pod of it is boosted although it asks for that. `publishes_totals` is set where an Hvpa reads the status.
    """

    pods: int
    problem: str = ""
    problem_reason: str = ""
    rivals: tuple[str, ...] = ()
    fetching_history: bool = False
    history_problem: str = ""
    boost_problem: str = ""
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
