"""What are the parts of an explanation like? Data that is printed as it is: what is empty is left out."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

# Quantities by resource.
Amounts = Mapping[str, str]


class Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of an explanation."""
