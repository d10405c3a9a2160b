"""The base of all slices of Kubernetes objects, and the types of their fields.

Three rules keep slices small and simple to read:

- Every field has a default, and an absent list or map reads as an empty one. Lists are tuples and maps
  default to the one shared `NOTHING`, so that an absent field costs a pointer; with `[]` and `{}` each object
  would get its own (56 and 64 bytes, fourteen times in a usual pod, a tenth of its size). A tuple also
  decodes a fifth faster than a list. `None` is used only where absent and empty mean different things, as in
  a label selector. A null is what Go writes for either; the decoder reads it as absent.
- Quantities stay text. They are parsed a column at a time, once, by the code that calculates with them.
- Times are datetimes with a zone: 15 ns slower to decode than text, 20 bytes smaller, ready to compare.

Fields stand in the order in which the API server writes them: the decoder looks for the next key where it found the
last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Final

import msgspec

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

# Marks text that a writer may have spelled as a number, for the repair in `decoder`. It costs the decoder nothing;
# with `str | int` every reader of a quantity would have to check.
QUANTITY_MARK: Final = "quantity"

QuantityText = Annotated[str, msgspec.Meta(extra={QUANTITY_MARK: True})]
Quantities = Mapping[str, QuantityText]
Labels = Mapping[str, str]

# A time without a zone cannot be compared with one that has it; Kubernetes always writes one.
Time = Annotated[datetime, msgspec.Meta(tz=True)]

# Kubernetes' IntOrString: a count, or a percentage such as "25%".
IntOrString = int | str


class Slice(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The base of every slice.

    `gc=False` keeps slices out of the cycle collector, which otherwise walks all of them again and again
    while a large list is decoded. It is safe because no cycle can pass through one: a slice is frozen, and
    holds text, numbers, times and other slices that were complete before it was made.
    """


class Presence(Slice, frozen=True):
    """A field of which only the existence matters, such as a probe. Its own fields are skipped."""
