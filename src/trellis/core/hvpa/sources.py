"""What are the HPA and the VPA that an Hvpa owns to say? Its templates, completed."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.api.kinds import HVPA
from trellis.api.resolve import EffectiveHvpa

# What the API server can store of a count.
_MOST_REPLICAS: Final = 2**31 - 1


def hpa_spec(hvpa: Hvpa, meaning: EffectiveHvpa) -> dict[str, Any]:
    """The template, pointed at the Hvpa. It does not wait before it scales down: the Hvpa does."""
    spec = meaning.hpa_spec
    reference = {"apiVersion": HVPA.api_version, "kind": HVPA.name, "name": hvpa.metadata.name}
    most = max((each.replicas.max or 1 for each in meaning.buckets), default=1)
    own = {"scaleTargetRef": reference, "behavior": _behavior(spec.get("behavior"))}
    return {"maxReplicas": min(2 * most, _MOST_REPLICAS), **spec, **own}


def vpa_spec(hvpa: Hvpa, meaning: EffectiveHvpa) -> dict[str, Any]:
    """The template for the Hvpa's target, in mode `Off`."""
    spec = meaning.vpa_spec
    policy = {**(spec.get("updatePolicy") or {}), "updateMode": "Off"}
    return {**spec, "targetRef": msgspec.to_builtins(hvpa.spec.target_ref), "updatePolicy": policy}


def _behavior(given: Any) -> Any:
    """With a window of its own on the way down. What is no behavior is left to the API server, which says so."""
    behavior = {} if given is None else given
    down = behavior.get("scaleDown") if isinstance(behavior, dict) else given
    down = {} if down is None else down
    if not isinstance(down, dict):
        return given
    window = down.get("stabilizationWindowSeconds")
    return {**behavior, "scaleDown": {**down, "stabilizationWindowSeconds": 0 if window is None else window}}
