"""Would the Hvpa controller decide again what it decided then? Each plan is made once more from its view."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from trellis.core.hvpa import Meaning, plan
from trellis.core.hvpa.recorded import Began, Decided, Looked
from trellis.sim.replay.singly import Singly


def _decided(looked: Looked, began: Began) -> Decided:
    # What follows from the buckets is worked out anew, too.
    view = replace(looked.view, meaning=Meaning.of(looked.view.meaning.hvpa))
    return Decided.of(plan(view, looked.now, began.settings))


replay_hvpa: Final = Singly("Hvpa", Began, Looked, lambda looked: looked.hvpa, _decided)
