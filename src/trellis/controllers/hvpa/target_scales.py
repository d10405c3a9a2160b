"""Reads the scale of an Hvpa's target, of any kind that has one."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kube.scaling import Scale
from trellis.base.errors import InvalidSelector, KubeError, NotFound, UnreadableObject
from trellis.base.selectors import Selector, parse_selector
from trellis.controllers.hvpa.status import HvpaNote
from trellis.core.cluster.owners import TargetRef, describe_missing
from trellis.core.cluster.target_problems import TARGET_SELECTS_NOTHING, TargetProblem, classify_error
from trellis.kube.client import Client
from trellis.kube.resources import Resource
from trellis.kube.scales import LookupTimes, ScalableKinds

# A kind that is not served may be installed at any moment, together with the Hvpa.
_RETRY_SECONDS: Final = 10.0


class TargetScale(msgspec.Struct, frozen=True):
    """A target as its scale shows it."""

    resource: Resource[Any]
    scale: Scale
    selector: Selector


class TargetScales:
    """Reads the scales of targets."""

    def __init__(self, client: Client) -> None:
        self._kinds = ScalableKinds(client, LookupTimes(retry=_RETRY_SECONDS))

    async def find(self, hvpa: Hvpa) -> TargetScale | HvpaNote:
        """The scale of the target, or the problem with it."""
        reference = hvpa.spec.target_ref
        target = TargetRef(hvpa.metadata.namespace, reference.api_version, reference.kind, reference.name)
        try:
            read = await self._kinds.read(target)
            if isinstance(read, TargetProblem):
                return HvpaNote(read.reason, read.message)
            text = read.scale.status.selector
            if not text:
                return HvpaNote(TARGET_SELECTS_NOTHING, str(target))
            return TargetScale(read.resource, read.scale, parse_selector(text))
        except NotFound as error:
            return HvpaNote(classify_error(error), describe_missing(target))
        except (KubeError, UnreadableObject, InvalidSelector) as error:
            return HvpaNote(classify_error(error), str(error))
