"""What is there now that has to do with sizes? Pods, what makes them, and who else sizes or scales them.

It comes from a cluster, or from what Prometheus knows of one; what follows from it is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.kube.observed_workloads import Observed
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.core.advice.surveyed import Amount
from trellis.core.model.dump_lines import Missing
from trellis.core.model.ooms import OomKill

Workload: TypeAlias = KubeObject | Observed


class Present(msgspec.Struct, frozen=True):
    """Everything in the namespaces that are asked about.

    `workloads` are by kind. An object whose kind has a pod template may be without it, where nobody could read it.
    `gone` are pods that ran within the time asked about and do not any more; `makers` are what made those and others,
    which may be gone too. `kills` are those that no pod shows any more. `largest_node` is how much pods may request of
    each resource on one node, where somebody looked.
    """

    namespaces: tuple[str, ...] = ()
    pods: Sequence[ObservedPod] = ()
    workloads: Mapping[str, Sequence[Workload]] = {}
    hpas: Sequence[HorizontalPodAutoscaler] = ()
    vpas: Sequence[VerticalPodAutoscaler] = ()
    limit_ranges: Sequence[LimitRange] = ()
    gone: Sequence[ObservedPod] = ()
    makers: Mapping[str, Sequence[Workload]] = {}
    kills: Sequence[OomKill] = ()
    missing: tuple[Missing, ...] = ()
    largest_node: Amount = Amount()
