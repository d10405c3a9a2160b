"""What does an Hvpa mean, or which rule does it break? It may have been stored before the rules were there."""

from __future__ import annotations

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.api.kinds import HVPA
from trellis.api.resolve import resolve_hvpa
from trellis.api.validate import validate
from trellis.base.reason import Reason, Severity
from trellis.core.hvpa.views import Meaning

HVPA_REFUSED = Reason("HvpaRefused", "The Hvpa breaks a rule, and its target is left alone.", Severity.WARNING)


def meaning_of(hvpa: Hvpa) -> tuple[Meaning | None, str]:
    """What it means, or why that cannot be said."""
    spec = msgspec.to_builtins(hvpa.spec)
    found = [str(each) for each in validate(HVPA, {"metadata": {"name": "x"}, "spec": spec}) if each.is_error]
    return (None, "; ".join(found)) if found else (Meaning.of(resolve_hvpa(hvpa)), "")
