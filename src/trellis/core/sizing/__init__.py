"""Requests and limits that each container of a pod should have now, boost aside.

`shapes` reads what a size depends on, `sizes` makes sizes of a recommendation. Admission, updater, boost, buffers and
reports all use this package. JSON patches that bring a size to a pod are made elsewhere, by the cluster package.
"""

from trellis.core.sizing.shapes import ContainerList, ContainerShape, PodShape, QosClass
from trellis.core.sizing.sizes import ContainerSize, PodSize, SizeNote, size_pod

__all__ = [
    "ContainerList",
    "ContainerShape",
    "ContainerSize",
    "PodShape",
    "PodSize",
    "QosClass",
    "SizeNote",
    "size_pod",
]
