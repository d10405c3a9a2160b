"""Which requests and limits should each container of a pod have now, boost aside?

`shapes` says what of a pod a size depends on, `sizes` makes sizes of a recommendation. Admission, updater, boost,
buffers and reports all ask here. Nothing here knows how a size reaches a pod; that is `core.model.patches`.
"""

from trellis.core.sizing.qos import QosClass
from trellis.core.sizing.shapes import ContainerShape, Place, PodShape
from trellis.core.sizing.sizes import ContainerSize, PodSize, SizeNote, size_pod

__all__ = [
    "ContainerShape",
    "ContainerSize",
    "Place",
    "PodShape",
    "PodSize",
    "QosClass",
    "SizeNote",
    "size_pod",
]
