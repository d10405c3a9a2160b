"""Bounds recommendations by policy, the cluster's maximum, LimitRanges and limits.

For the status of all VerticalPodAutoscalers, `policy` works in columns. For one pod, `cap_for_pod` applies everything
that would keep the pod from being admitted or breaks its policy, in upstream's order, and records what it changed.
"""

from trellis.core.recommend.capping.container import PodContainer
from trellis.core.recommend.capping.limit_ranges import NamespaceLimits, read_limit_ranges
from trellis.core.recommend.capping.pod import (
    CappedResources,
    RecommendedResources,
    cap_for_pod,
    read_recommended_resources,
)
from trellis.core.recommend.capping.policy import PolicyBounds, compile_policy_bounds

__all__ = [
    "CappedResources",
    "NamespaceLimits",
    "PodContainer",
    "PolicyBounds",
    "RecommendedResources",
    "cap_for_pod",
    "compile_policy_bounds",
    "read_limit_ranges",
    "read_recommended_resources",
]
