"""Governors: the VerticalPodAutoscaler or Hvpa by which a pod is sized, compiled once and used many times.

Of several objects that claim a pod, a VPA that acts comes first: an Hvpa yields to it. Hvpas come next, and last VPAs
in mode `Off` that only boost. An object that neither acts nor boosts is no governor, so that a second VPA created for
its recommendation alone, however old, keeps no other from acting.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Final

import msgspec

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.parts import TargetReference
from trellis.api.kinds.vpa import (
    PodUpdatePolicy,
    VerticalPodAutoscaler,
    VerticalPodAutoscalerSpec,
    VerticalPodAutoscalerStatus,
)
from trellis.api.kube.meta import ObjectMeta
from trellis.api.resolve import EffectiveVpa, UpdateMode, resolve_hvpa_pods, resolve_vpa
from trellis.core.cluster.governance import TargetClaim
from trellis.core.cluster.owners import TargetRef
from trellis.core.recommend.capping import RecommendedResources, read_recommended_resources


class GovernorRank(IntEnum):
    """Who goes first; `Claim.rank`."""

    ACTS = 0
    HVPA = 1
    BOOSTS_ONLY = 2


class Governor(msgspec.Struct, frozen=True, gc=False):
    """One object that sizes pods: what it claims, what it means and what is recommended.

    The selector of its claim stays open: it is the target's, and changes with the target.
    """

    kind: str
    claim: TargetClaim
    vpa: EffectiveVpa
    advice: tuple[RecommendedResources, ...]

    @property
    def name(self) -> str:
        """Its name; its namespace is that of the pod."""
        return self.claim.name

    @property
    def is_object(self) -> bool:
        """Whether it stands for an object; `NO_GOVERNOR` does not."""
        return bool(self.kind)

    @property
    def applies(self) -> bool:
        """Whether the recommendation reaches pods; a boost does so in any case."""
        return self.vpa.mode is not UpdateMode.OFF


# For pods that no object governs: nothing is recommended, and nothing is boosted.
NO_GOVERNOR: Final = Governor(
    kind="",
    claim=TargetClaim("", "", "", math.nan, TargetRef("", "", "", ""), selector=None),
    vpa=resolve_vpa(
        VerticalPodAutoscaler(
            spec=VerticalPodAutoscalerSpec(update_policy=PodUpdatePolicy(update_mode=UpdateMode.OFF.value))
        )
    ),
    advice=(),
)


def compile_vpa_governor(vpa: VerticalPodAutoscaler) -> Governor | None:
    """A VPA that sizes pods; None for one that only recommends."""
    meaning = resolve_vpa(vpa)
    acts = meaning.mode is not UpdateMode.OFF
    if not acts and not meaning.boosts:
        return None
    claim = _claim(vpa.metadata, vpa.spec.target_ref, GovernorRank.ACTS if acts else GovernorRank.BOOSTS_ONLY)
    return Governor(vpa.kind, claim, meaning, read_recommended_resources(vpa.status) if acts else ())


def update_advice(governor: Governor, status: VerticalPodAutoscalerStatus | None) -> Governor:
    """The governor of a VPA of which only the status has changed: what it means is costly to find, and stays."""
    return msgspec.structs.replace(governor, advice=read_recommended_resources(status) if governor.applies else ())


def compile_hvpa_governor(hvpa: Hvpa) -> Governor:
    """An Hvpa, which always sizes its pods once it has decided."""
    claim = _claim(hvpa.metadata, hvpa.spec.target_ref, GovernorRank.HVPA)
    return Governor(hvpa.kind, claim, resolve_hvpa_pods(hvpa), read_recommended_resources(hvpa.status))


def _claim(metadata: ObjectMeta, target: TargetReference, rank: GovernorRank) -> TargetClaim:
    created = metadata.creation_timestamp
    return TargetClaim(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        created=created.timestamp() if created is not None else math.nan,
        target=TargetRef(metadata.namespace, target.api_version, target.kind, target.name),
        selector=None,
        rank=rank,
    )
