"""How high is a container's CPU raised when its pod is created?

The base is what the container gets otherwise: its recommendation where that is applied, else its own request. The
boost may pass every policy, but neither what keeps a pod from being admitted nor what keeps it from being unboosted:
LimitRanges, resources of the pod as a whole, its QoS class, a restart. Where several containers share a maximum, each
boost is cut by the same ratio. Memory is not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trellis.api.kube.pods import PodSpec
from trellis.api.resolve import EffectiveVpa
from trellis.core.boost.memory import remembered
from trellis.core.boost.notes import (
    BOOST_CAPPED_BY_FLAG,
    BOOST_CAPPED_BY_LIMIT_RANGE,
    BOOST_CAPPED_BY_NODE,
    BOOST_CAPPED_BY_POD,
    BOOST_KEPT_BELOW_LIMIT,
    BOOST_NOT_ABOVE,
    BOOST_SKIPPED_NO_BASE,
    BOOST_SKIPPED_NOT_RESIZABLE,
    BOOST_SKIPPED_RESTART,
    BOOST_WOULD_NOT_FIT,
    BoostNote,
)
from trellis.core.boost.sharing import outgrows, share
from trellis.core.boost.wishes import Wish
from trellis.core.recommend.capping.limit_ranges import NamespaceLimits
from trellis.core.sizing.shapes import ContainerShape, PodShape
from trellis.core.sizing.sizes import PodSize

_CPU = "cpu"
_WINDOWS = "windows"


class BoostSettings(msgspec.Struct, frozen=True):
    """What the cluster says. `enabled`: the gate is on, and the API server can resize a pod in place.

    `max_cpu` is the flag `--max-allowed-cpu-boost` in millicores; None and 0 cap nothing.
    """

    enabled: bool = True
    max_cpu: int | None = None


class CpuCeiling(msgspec.Struct, frozen=True):
    """The most CPU that the whole pod could request on some node that would take it; `binding` says that it must."""

    millicores: int
    binding: bool


class Raised(msgspec.Struct, frozen=True):
    """A boosted container: request and limit (None: it has none), and the annotation that remembers what it had."""

    container: ContainerShape
    base: int
    request: int
    limit: int | None
    memory: str
    notes: tuple[BoostNote, ...] = ()


class PodBoost(msgspec.Struct, frozen=True):
    """The boosts of a pod, and by container what there is to say, also about those that were not boosted."""

    raised: tuple[Raised, ...] = ()
    notes: tuple[tuple[str, BoostNote], ...] = ()

    def find(self, name: str) -> Raised | None:
        """The boost of one container."""
        return next((each for each in self.raised if each.container.name == name), None)


def is_resizable(spec: PodSpec) -> bool:
    """Whether the API server lets such a pod be resized at all: not if it is for Windows (Kubernetes 1.36)."""
    return spec.os is None or spec.os.name != _WINDOWS


def boost_pod(
    shape: PodShape,
    size: PodSize,
    vpa: EffectiveVpa,
    *,
    applies: bool,
    limits: NamespaceLimits,
    settings: BoostSettings,
    ceiling: CpuCeiling | None = None,
    resizable: bool = True,
) -> PodBoost:
    """The boosts of a pod that is being created; `applies` says that its size is what it gets otherwise."""
    if not settings.enabled:
        return PodBoost()
    plain = [_plain(each, size, applies) for each in shape.containers]
    wishes: dict[int, Wish] = {}
    notes: list[tuple[str, BoostNote]] = []
    for position, container in enumerate(shape.containers):
        meaning = vpa.container(container.name)
        if meaning.boost is None:
            continue
        if not resizable:
            notes.append((container.name, BoostNote(BOOST_SKIPPED_NOT_RESIZABLE)))
        elif _CPU in container.restarts_on:
            notes.append((container.name, BoostNote(BOOST_SKIPPED_RESTART)))
        elif not plain[position][0]:
            notes.append((container.name, BoostNote(BOOST_SKIPPED_NO_BASE)))
        else:
            wishes[position] = Wish.of(container, meaning.boost, meaning, plain[position])
            _cut_alone(wishes[position], shape, limits, settings)
    _cut_together(wishes, shape, plain, limits, ceiling)
    for wish in wishes.values():
        if not wish.is_above:
            wish.notes.append(BoostNote(BOOST_NOT_ABOVE))
        notes += [(wish.container.name, note) for note in wish.notes]
    return PodBoost(tuple(_raised(wish) for wish in wishes.values() if wish.is_above), tuple(notes))


def _plain(container: ContainerShape, size: PodSize, applies: bool) -> tuple[int, int]:
    """The request and limit that a container gets otherwise, in millicores; 0 is none."""
    own_limit = container.limits.get(_CPU, 0)
    found = size.find(container.name) if applies else None
    if found is not None and found.requests.get(_CPU):
        return found.requests[_CPU], found.limits.get(_CPU, own_limit)
    # A limit without a request counts as both, as the API server fills it in.
    return container.requests.get(_CPU, 0) or own_limit, own_limit


def _cut_alone(wish: Wish, shape: PodShape, limits: NamespaceLimits, settings: BoostSettings) -> None:
    """Whatever bounds a container by itself."""
    if settings.max_cpu:
        wish.cut(settings.max_cpu, BOOST_CAPPED_BY_FLAG)
    if most := limits.container.most.get(_CPU):
        wish.cut(wish.request_at(most), BOOST_CAPPED_BY_LIMIT_RANGE)
    if most := shape.pod_limits.get(_CPU):
        wish.cut(wish.request_at(most), BOOST_CAPPED_BY_POD)
    if wish.limit is not None and not wish.limit_follows:
        wish.cut(wish.limit - 1, BOOST_KEPT_BELOW_LIMIT)


def _cut_together(
    wishes: Mapping[int, Wish],
    shape: PodShape,
    plain: Sequence[tuple[int, int]],
    limits: NamespaceLimits,
    ceiling: CpuCeiling | None,
) -> None:
    """Whatever bounds the pod as a whole."""
    requests, maxima = [request for request, _ in plain], [limit for _, limit in plain]
    pod_request = shape.pod_requests.get(_CPU)
    if pod_request:
        share(wishes, shape, requests, pod_request, BOOST_CAPPED_BY_POD)
    # Where a pod has amounts of its own, LimitRanges for pods hold for those.
    most = limits.pod.most.get(_CPU)
    if most and not shape.pod_limits.get(_CPU):
        share(wishes, shape, maxima, most, BOOST_CAPPED_BY_LIMIT_RANGE, of_limit=True)
    if most and not pod_request:
        share(wishes, shape, requests, most, BOOST_CAPPED_BY_LIMIT_RANGE)
    # A pod that requests as a whole is placed by that request, however its containers share it.
    if ceiling is None or pod_request:
        return
    if ceiling.binding:
        share(wishes, shape, requests, ceiling.millicores, BOOST_CAPPED_BY_NODE)
    elif outgrows(wishes, shape, requests, ceiling.millicores):
        for wish in wishes.values():
            if wish.is_above:
                wish.notes.append(BoostNote(BOOST_WOULD_NOT_FIT))


def _raised(wish: Wish) -> Raised:
    memory = remembered(wish.container)
    return Raised(wish.container, wish.base, wish.request, wish.boosted_limit, memory, tuple(wish.notes))
