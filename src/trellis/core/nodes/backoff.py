"""Which groups are left alone for a while, because they failed?

Each failure in a row doubles the time, up to a most; a group that has been well for long starts anew.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.base.reason import Reason, Severity
from trellis.core.nodes.up_settings import UpSettings

GROUP_BACKED_OFF = Reason(
    "GroupBackedOff", "The group failed a short while ago; nothing is ordered from it for now.", Severity.WARNING
)


class Backoff(msgspec.Struct, frozen=True):
    """A group that failed: when it last did, and for how many seconds it is left alone since."""

    failed_at: float
    seconds: float
    why: str = ""

    @property
    def until(self) -> float:
        """When orders may be tried again."""
        return self.failed_at + self.seconds


def failed(known: Backoff | None, at: float, why: str, settings: UpSettings) -> Backoff:
    """The same after a failure; one that was known already, or is older than that, changes nothing."""
    if known is None or at - known.until >= settings.node_group_backoff_reset_seconds:
        return Backoff(at, settings.initial_node_group_backoff_seconds, why)
    if at <= known.failed_at:
        return known
    if at < known.until:
        # Others of the same order: the group was not tried again in between.
        return known
    return Backoff(at, min(2 * known.seconds, settings.max_node_group_backoff_seconds), why)


def kept(backoffs: Mapping[str, Backoff], now: float, settings: UpSettings) -> dict[str, Backoff]:
    """Those that still make a difference."""
    reset = settings.node_group_backoff_reset_seconds
    return {group: each for group, each in backoffs.items() if now - each.until < reset}
