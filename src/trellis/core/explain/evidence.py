"""What did the components decide? All their answers about one namespace, from one state, at one time."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.core.explain.arriving import Arrived, arrivals_in
from trellis.core.explain.recommending import Recommended, recommended_in
from trellis.core.explain.scaling import Scaled, scaled_in
from trellis.core.explain.settings import Components
from trellis.core.explain.updating import Updated, updated_in
from trellis.core.model.collected import Collected
from trellis.core.model.owners import TargetRef


class Evidence(msgspec.Struct, frozen=True):
    """What was known, and what was decided. An explanation says nothing that is not in here."""

    collected: Collected
    components: Components
    namespace: str
    now: float
    recommended: Recommended
    updated: Updated
    arrivals: Mapping[TargetRef, Arrived]
    scaled: Mapping[str, Scaled]


def evidence_of(
    collected: Collected, namespace: str, components: Components | None = None, now: float | None = None
) -> Evidence:
    """Ask all of them. Without a time it is that of the collection."""
    given = components or Components()
    at = collected.time if now is None else now
    return Evidence(
        collected,
        given,
        namespace,
        at,
        recommended_in(collected, namespace, given, at),
        updated_in(collected, namespace, given, at),
        arrivals_in(collected, namespace, given),
        scaled_in(collected, namespace, given, at),
    )
