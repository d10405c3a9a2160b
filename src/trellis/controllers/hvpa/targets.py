"""What does the scale of a target say now? Any kind will do that has one."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.api.kube.scaling import Scale
from trellis.base.errors import Forbidden, InvalidSelector, KubeError, NotFound, Unauthorized, UnreadableObject
from trellis.base.selectors import Selector, parse_selector
from trellis.controllers.hvpa.publishing import Said
from trellis.core.model.owners import TargetRef, missing
from trellis.core.model.target_problems import (
    TARGET_FORBIDDEN,
    TARGET_NOT_FOUND,
    TARGET_SELECTOR_UNREADABLE,
    TARGET_SELECTS_NOTHING,
    TARGET_UNREACHABLE,
    TargetProblem,
)
from trellis.kube.client import Client
from trellis.kube.resources import Resource
from trellis.kube.scalable_kinds import LookupTimes, ScalableKinds

# A kind that is not there may be installed at any moment, by whoever has just created the Hvpa.
_RETRY_SECONDS: Final = 10.0


class Scaled(msgspec.Struct, frozen=True):
    """A target as its scale shows it."""

    resource: Resource[Any]
    scale: Scale
    selector: Selector


class Targets:
    """Asks for scales. A problem is an answer too."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kinds = ScalableKinds(client, LookupTimes(retry=_RETRY_SECONDS))

    async def find(self, hvpa: Hvpa) -> Scaled | Said:
        """What the scale of the target says, or why that is not known."""
        reference = hvpa.spec.target_ref
        target = TargetRef(hvpa.metadata.namespace, reference.api_version, reference.kind, reference.name)
        try:
            kind = await self._kinds.find(target)
            if isinstance(kind, TargetProblem):
                return Said(kind.reason, kind.message)
            # By its metadata alone a scale would have no count.
            resource = msgspec.structs.replace(kind.resource, metadata_only=False)
            scale = await self._client.get_scale(resource, target.name, target.namespace)
            text = scale.status.selector
            selector = parse_selector(text) if text else None
        except NotFound:
            self._kinds.doubt()
            return Said(TARGET_NOT_FOUND, missing(target))
        except (Forbidden, Unauthorized) as error:
            return Said(TARGET_FORBIDDEN, str(error))
        except (KubeError, UnreadableObject) as error:
            return Said(TARGET_UNREACHABLE, str(error))
        except InvalidSelector as error:
            return Said(TARGET_SELECTOR_UNREADABLE, str(error))
        return Scaled(resource, scale, selector) if selector is not None else Said(TARGET_SELECTS_NOTHING, str(target))
