"""How is a recommendation bounded? By policy, the cluster's maximum, LimitRanges and limits: here and nowhere else.

For the status of all VerticalPodAutoscalers, `policy` works in columns. For one pod, `cap_for_pod` applies everything
that would keep the pod from being admitted or breaks its policy, in upstream's order, and says what it changed.
"""

from trellis.core.recommend.capping.container import PodContainer
from trellis.core.recommend.capping.limit_ranges import NamespaceLimits, read_limit_ranges
from trellis.core.recommend.capping.pod import Advice, CappedAdvice, cap_for_pod, read_advice
from trellis.core.recommend.capping.policy import Caps, compile_caps

__all__ = [
    "Advice",
    "CappedAdvice",
    "Caps",
    "NamespaceLimits",
    "PodContainer",
    "cap_for_pod",
    "compile_caps",
    "read_advice",
    "read_limit_ranges",
]
