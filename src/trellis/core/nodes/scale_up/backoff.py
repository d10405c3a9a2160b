"""Backoff of node groups that failed.

Each failure in a row doubles the time, up to a maximum; a group without failures for long enough starts anew.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.core.nodes.settings import ScaleUpSettings

GROUP_BACKED_OFF = Reason(
    "GroupBackedOff", "The group failed a short while ago; nothing is ordered from it for now.", Severity.WARNING
)


class GroupBackoff(msgspec.Struct, frozen=True):
    """A group that failed: when it last did, and for how many seconds it is left alone since."""

    failed_at: float
    seconds: float
    why: str = ""

    @property
    def until(self) -> float:
        """When orders may be tried again."""
        return self.failed_at + self.seconds


def back_off(backoff: GroupBackoff | None, at: float, why: str, settings: ScaleUpSettings) -> GroupBackoff:
    """The same after a failure; one that was known already, or is older than that, changes nothing."""
    if backoff is None or at - backoff.until >= settings.node_group_backoff_reset_seconds:
        return GroupBackoff(at, settings.initial_node_group_backoff_seconds, why)
    if at <= backoff.failed_at:
        return backoff
    if at < backoff.until:
        # Others of the same order: the group was not tried again in between.
        return backoff
    return GroupBackoff(at, min(2 * backoff.seconds, settings.max_node_group_backoff_seconds), why)


def active_backoffs(
    backoffs: Mapping[str, GroupBackoff], now: float, settings: ScaleUpSettings
) -> dict[str, GroupBackoff]:
    """Those that still make a difference."""
    reset = settings.node_group_backoff_reset_seconds
    return {group: backoff for group, backoff in backoffs.items() if now - backoff.until < reset}
