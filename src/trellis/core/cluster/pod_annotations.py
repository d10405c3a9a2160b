"""Annotations that record on a pod what admission and the updater did to it.

Upstream's, which its components and people's scripts read, and one of Trellis for machines and `trellis explain`.
"""

from __future__ import annotations

from typing import Final

# What admission changed, in a sentence.
UPDATES_ANNOTATION: Final = "vpaUpdates"
# The containers that admission saw; those that others inject later are not sized.
OBSERVED_CONTAINERS_ANNOTATION: Final = "vpaObservedContainers"
# "true" once the pod has been resized where it runs.
IN_PLACE_UPDATED_ANNOTATION: Final = "vpaInPlaceUpdated"
# Of a boosted container, before its name.
BOOST_ANNOTATION_PREFIX: Final = "vpaCpuStartupBoost/"

SIZED_ANNOTATION: Final = "trellis.x-k8s.io/sized"
