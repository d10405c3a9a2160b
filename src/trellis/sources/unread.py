"""What of an answer could not be read? Each reason is counted, and the rest of the answer is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trellis.base.reason import Reason, Severity

UNREADABLE_ENTRY: Final = Reason(
    "UnreadableUsageEntry",
    "An entry of an answer with usage is malformed, or does not say of which container it is.",
    Severity.WARNING,
)
WITHOUT_TIME: Final = Reason(
    "UsageWithoutTime", "An entry with usage has no time, or none that can be read.", Severity.WARNING
)
UNREADABLE_AMOUNT: Final = Reason(
    "UnreadableUsageAmount", "An amount of usage is negative, or is no quantity.", Severity.WARNING
)


def counted(counts: Mapping[Reason, int]) -> dict[str, int]:
    """The counts by code, without those that are zero."""
    return {reason.code: count for reason, count in counts.items() if count}
