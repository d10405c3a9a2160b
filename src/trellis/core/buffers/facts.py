"""What is a Buffer translated from, beside its spec?

Facts are frozen and can be compared: as long as they are equal, and no window of a schedule opens or closes, the
translation is the same, and who remembers it need not make it again.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.api.kube.nodes import Taint
from trellis.api.kube.pods import Pod, PodTemplateSpec
from trellis.core.model.target_problems import TargetProblem
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.recommend.capping.limit_ranges import Counts
from trellis.core.sizing.governors import Governor

_NONE: Mapping[str, int] = {}


class FoundTarget(msgspec.Struct, frozen=True):
    """A target as it is now.

    `replicas` are those of the status of its scale, or a Job's parallelism. `pod` is its newest live pod; `template`
    is as the API server would store a pod of it, or as it is written if the server refused that, which `refusal` says.
    `governor` is what sizes its new pods within `limits`. `boosts` are the millicores with which containers start,
    where pods start boosted: a pod is placed by what it requests when it is made, so room for less would not take it.
    `last` is the shape that the Buffer had until now, for kinds without a template that have no pods at the moment.
    """

    replicas: int | None = None
    pod: Pod | None = None
    template: PodTemplateSpec | None = None
    refusal: str = ""
    governor: Governor | None = None
    limits: NamespaceLimits = NamespaceLimits()
    boosts: Counts = _NONE
    last: PodTemplateSpec | None = None


class NodesOfClass(msgspec.Struct, frozen=True):
    """The nodes of a class: of each resource, what the one with the least and the one with the most leaves for pods.

    `taints` are those that all of them have for good.
    """

    count: int = 0
    least: Counts = _NONE
    most: Counts = _NONE
    taints: tuple[Taint, ...] = ()


class Facts(msgspec.Struct, frozen=True):
    """All that a translation depends on. `filled` is what pods request that fill a dedicated Buffer."""

    target: FoundTarget | TargetProblem | None = None
    nodes: NodesOfClass = NodesOfClass()
    filled: Counts = _NONE
