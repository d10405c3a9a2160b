"""Which values hold? Of several sources the first wins, then the defaults; then every rule is checked.

The order is flags, environment, file: `load(settings, from_flags(...), from_environment(...), from_file(...))`.
Everything that is wrong is said at once, each with the value, where it stands, and the rule it breaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from trellis.base.errors import InvalidInput, shown
from trellis.runtime.setting_sources import Written
from trellis.runtime.settings import Declared, Settings, declared

S = TypeVar("S", bound=Settings)


class Loaded(msgspec.Struct, Generic[S], frozen=True):
    """Settings that are sound, and for each that is not at its default where it comes from."""

    settings: S
    origins: Mapping[str, str]


def load(settings: type[S], *sources: Mapping[str, Written]) -> Loaded[S]:
    """Settings from these sources, of which the first wins."""
    refused: list[tuple[object, str]] = []
    origins: dict[str, str] = {}
    values: dict[tuple[str, ...], Any] = {}
    for each in declared(settings):
        written = next((source[each.name] for source in sources if each.name in source), None)
        if written is None:
            continue
        origins[each.name] = written.origin
        try:
            values[each.path] = each.read(written.value)
        except InvalidInput as error:
            value = "(hidden)" if each.about.secret else written.value
            refused.append((value, f"{written.origin}: {_rule(error, written.value)}"))
    _refuse(refused)
    made = _replaced(settings(), values)
    _refuse(list(_conflicts(made, declared(settings), origins)))
    return Loaded(made, origins)


def values_of(settings: Settings) -> dict[str, str]:
    """Every setting and its value as text, for a log or a page; secrets are hidden."""
    return {each.name: each.show(_value(settings, each)) for each in declared(type(settings))}


def _rule(error: InvalidInput, value: object) -> str:
    """The rule, with the part of the value that breaks it if that is not all of it."""
    return error.rule if error.value == value else f"{shown(error.value)} {error.rule}"


def _replaced(base: S, values: Mapping[tuple[str, ...], Any]) -> S:
    """The struct with the given fields changed, in groups too."""
    changed: dict[str, Any] = {path[0]: value for path, value in values.items() if len(path) == 1}
    for group in {path[0] for path in values if len(path) > 1}:
        inner = {path[1:]: value for path, value in values.items() if path[0] == group}
        changed[group] = _replaced(getattr(base, group), inner)
    return msgspec.structs.replace(base, **changed)


def _conflicts(
    settings: Settings, known: Sequence[Declared], origins: Mapping[str, str]
) -> Iterator[tuple[object, str]]:
    by_name = {each.name: each for each in known}
    for group in _groups(settings):
        for conflict in group.conflicts():
            each = by_name[conflict.setting]
            origin = origins.get(each.name, f"default of {each.name}")
            yield each.show(_value(settings, each)), f"{origin}: {conflict.rule}"


def _groups(settings: Settings) -> Iterator[Settings]:
    yield settings
    for field in settings.__struct_fields__:
        value = getattr(settings, field)
        if isinstance(value, Settings):
            yield from _groups(value)


def _value(settings: Settings, each: Declared) -> Any:
    value: Any = settings
    for step in each.path:
        value = getattr(value, step)
    return value


def _refuse(refused: Sequence[tuple[object, str]]) -> None:
    if refused:
        (value, rule), *others = refused
        raise InvalidInput(value, "; ".join([rule, *(f"{shown(value)}: {rule}" for value, rule in others)]))
