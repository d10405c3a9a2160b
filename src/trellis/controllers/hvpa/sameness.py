"""Is an HPA, or a VPA, what its template asks for, and nothing else?"""

from __future__ import annotations

from typing import Any

import msgspec

from trellis.api.kube.decode import convert_object
from trellis.api.kube.scaling import HorizontalPodAutoscalerSpec
from trellis.api.vpa import VerticalPodAutoscalerSpec
from trellis.base.errors import InvalidQuantity, UnreadableObject
from trellis.base.quantity import Quantity
from trellis.controllers.hvpa.hpa_defaults import completed


def is_same_vpa(wanted: dict[str, Any], found: VerticalPodAutoscalerSpec) -> bool:
    """Whether a VPA says just what is wanted."""
    try:
        return msgspec.convert(wanted, VerticalPodAutoscalerSpec) == found
    except msgspec.ValidationError:
        # Nobody can read it, and so nobody can say that it differs.
        return True


def is_same_hpa(wanted: dict[str, Any], found: HorizontalPodAutoscalerSpec) -> bool:
    """What the API server fills in is no difference, and what nobody can read is for it to refuse."""
    try:
        ours = convert_object(wanted, HorizontalPodAutoscalerSpec)
    except UnreadableObject:
        return False
    one, other = msgspec.to_builtins(completed(ours)), msgspec.to_builtins(completed(found))
    return _holds(one, other) and _holds(other, one)


def _holds(wanted: Any, found: Any) -> bool:
    """Whether all that is wanted is there. Quantities may be spelled in another way."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_holds(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        return len(wanted) == len(found or ()) and all(map(_holds, wanted, found))
    return bool(wanted == found) or _amount(wanted) == _amount(found) is not None


def _amount(text: Any) -> Quantity | None:
    try:
        return Quantity.parse(text) if isinstance(text, str) else None
    except InvalidQuantity:
        return None
