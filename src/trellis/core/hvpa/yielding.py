"""Does another autoscaler come first? Two that turn the same knob turn it for ever."""

from __future__ import annotations

from trellis.base.reason import Reason, Severity

CONFLICTING_HPA = Reason(
    "ConflictingHPA",
    "An HPA is pointed at the target itself; point it at the Hvpa, or the Hvpa leaves the target alone.",
    Severity.WARNING,
)
CONFLICTING_VPA = Reason(
    "ConflictingVPA",
    "A VPA that is not in mode Off sizes the target's pods, and the Hvpa leaves the target alone.",
    Severity.WARNING,
)
ELDER_HVPA = Reason("ElderHvpa", "An older Hvpa has the same target, and this one leaves it alone.", Severity.WARNING)


def yields_to(*, acting_vpa: bool, hpa_on_target: bool, elder_hvpa: bool) -> Reason | None:
    """Why an Hvpa leaves its target alone; None if it does not."""
    if elder_hvpa:
        return ELDER_HVPA
    if acting_vpa:
        return CONFLICTING_VPA
    return CONFLICTING_HPA if hpa_on_target else None
