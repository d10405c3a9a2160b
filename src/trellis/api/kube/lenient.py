"""What a writer meant by a null, or by a number where a quantity belongs.

Go writes a list or map that is nil as null where the field has no `omitempty` (a new autoscaler's
`currentMetrics`, an empty LimitRange), people leave a key of a manifest empty, and a custom resource keeps
`limits: {cpu: 1}` as the number it was written as. The API server takes all of these. Slices are declared
without them, so that readers need not ask; an object that does not decode as declared is mended here and
tried once more. That is some twenty times slower, and rare: the API server writes pods without either.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from trellis.api.kube.slices import QUANTITY_MARK

T = TypeVar("T", bound=msgspec.Struct)


def convert_leniently(value: object, kind: type[T]) -> T:
    """An object of that kind from parsed JSON or YAML; raises `msgspec.ValidationError` if it is not one."""
    return msgspec.convert(_mended(value, _shape(kind)), kind)


@cache
def _shape(kind: type[Any]) -> inspect.Type:
    return inspect.type_info(kind)


def _mended(value: object, shape: inspect.Type) -> object:
    """The value without nulls, and with quantities as text; what else is wrong is the decoder's to say."""
    match shape:
        case inspect.Metadata(type=inner, extra=extra):
            return str(value) if _is_number(value) and QUANTITY_MARK in (extra or ()) else _mended(value, inner)
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            return {
                field.encode_name: _mended(value[field.encode_name], field.type)
                for field in fields
                if value.get(field.encode_name) is not None
            }
        case inspect.DictType(value_type=inner) if isinstance(value, dict):
            return {key: _mended(each, inner) for key, each in value.items() if each is not None}
        case inspect.VarTupleType(item_type=inner) if isinstance(value, list):
            return [_mended(each, inner) for each in value]
        case inspect.UnionType(types=types):
            members = [member for member in types if not isinstance(member, inspect.NoneType)]
            return _mended(value, members[0]) if len(members) == 1 else value
        case _:
            return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
