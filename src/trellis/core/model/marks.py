"""By which annotations does a pod say what was done to it? Upstream's, which its components and scripts read."""

from __future__ import annotations

from typing import Final

# What admission changed, in a sentence.
UPDATES: Final = "vpaUpdates"
# The containers that admission saw; those that others inject later are not sized.
OBSERVED: Final = "vpaObservedContainers"
# "true" once the pod has been resized where it runs.
IN_PLACE_UPDATED: Final = "vpaInPlaceUpdated"
