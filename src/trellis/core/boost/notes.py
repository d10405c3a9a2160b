"""Notes on a boost: why it is less than its policy asks for, or why there is none."""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.base.reasons import Reason, Severity

BOOST_CAPPED_BY_FLAG = Reason("BoostCappedByFlag", "The boost was lowered to what --max-allowed-cpu-boost allows.")
BOOST_CAPPED_BY_LIMIT_RANGE = Reason(
    "BoostCappedByLimitRange", "The boost was lowered to the maximum of a LimitRange, beyond which no pod is admitted."
)
BOOST_CAPPED_BY_POD = Reason(
    "BoostCappedByPod", "The boost was lowered to what the pod as a whole requests, or is limited to."
)
BOOST_CAPPED_BY_NODE = Reason(
    "BoostCappedByNode", "The boost was lowered so that the pod fits some node that would take it."
)
BOOST_KEPT_BELOW_LIMIT = Reason(
    "BoostKeptBelowLimit", "The boosted request was kept 1m below the limit, which stays, so that the QoS class stays."
)
BOOST_NOT_ABOVE = Reason("BoostNotAbove", "Nothing is left of the boost, so that the plain value stands.")
BOOST_SKIPPED_NO_BASE = Reason(
    "BoostSkippedNoBase", "There is no boost, as the container has neither a recommendation nor a request to raise."
)
BOOST_SKIPPED_NOT_RESIZABLE = Reason(
    "BoostSkippedNotResizable", "There is no boost, as pods for this operating system cannot be resized in place."
)
BOOST_SKIPPED_RESTART = Reason(
    "BoostSkippedRestart", "There is no boost, as its end would restart the container just as it became Ready."
)
BOOST_WOULD_NOT_FIT = Reason(
    "BoostWouldNotFit", "With its boost the pod is too large for every node that would take it.", Severity.WARNING
)

# The words of the pod's annotation, in the manner of upstream's.
_PHRASES: Final = {
    BOOST_CAPPED_BY_FLAG.code: "boost capped to --max-allowed-cpu-boost",
    BOOST_CAPPED_BY_LIMIT_RANGE.code: "boost capped to fit Max in LimitRange",
    BOOST_CAPPED_BY_POD.code: "boost capped to fit pod resources",
    BOOST_CAPPED_BY_NODE.code: "boost capped to fit a node",
    BOOST_KEPT_BELOW_LIMIT.code: "boost kept below container limit",
    BOOST_NOT_ABOVE.code: "not boosted since nothing is left of the boost",
    BOOST_SKIPPED_NO_BASE.code: "not boosted since there is no request to raise",
    BOOST_SKIPPED_NOT_RESIZABLE.code: "not boosted since the pod cannot be resized",
    BOOST_SKIPPED_RESTART.code: "not boosted since a resize restarts the container",
    BOOST_WOULD_NOT_FIT.code: "boost fits no node",
}


class BoostNote(msgspec.Struct, frozen=True):
    """Something that made a boost other than its policy says; its text is the phrase of the pod's annotation."""

    reason: Reason
    resource: str = "cpu"

    def __str__(self) -> str:
        return f"{self.resource} {_PHRASES[self.reason.code]}"
