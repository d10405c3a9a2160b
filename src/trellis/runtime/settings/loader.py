"""Loads settings from flags, environment and a file, in this order of precedence, then checks every rule.

`load_settings(settings, from_flags(...), from_environment(...), from_file(...))`. Each source is read in its own
spelling, and its values keep their origin. All errors are reported at once, each with the value, where it stands, and
the rule it breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from trellis.base.errors import InvalidInput, format_value
from trellis.base.names import suggest_name
from trellis.runtime.settings.declarations import SettingDeclaration, Settings, component_settings, declared_settings

# Kubernetes sets variables for services: one named trellis-webhook sets TRELLIS_WEBHOOK_PORT to this.
_SERVICE_LINK: Final = re.compile(r"(tcp|udp|sctp)://.*")


class WrittenValue(msgspec.Struct, frozen=True):
    """A value as it was written, and its origin for messages."""

    value: object
    origin: str


def from_flags(
    settings: type[Settings], parameters: Mapping[str, object], component: str = ""
) -> dict[str, WrittenValue]:
    """The values of the command line, from click's parameters; those for one component if it is named."""
    by_name: dict[str, WrittenValue] = {}
    for setting in component_settings(settings, component):
        value = parameters.get(setting.parameter)
        equals = "=" if setting.letter else ""  # what click leaves of `-v=4` before the value
        if isinstance(value, tuple):
            value = ",".join(item.removeprefix(equals) for item in value) if value else None
        elif isinstance(value, str):
            value = value.removeprefix(equals)
        if value is not None:
            by_name[setting.name] = WrittenValue(value, f"flag --{setting.flag}")
    return by_name


def from_environment(
    settings: type[Settings], environment: Mapping[str, str], component: str = ""
) -> dict[str, WrittenValue]:
    """The values of environment variables, those for one component if it is named.

    Unknown ones are ignored: Kubernetes adds some for every service.
    """
    by_name: dict[str, WrittenValue] = {}
    for setting in component_settings(settings, component):
        for variable in (setting.variable, setting.setting.variable):
            value = environment.get(variable)
            if value is None or (variable.endswith("_PORT") and _SERVICE_LINK.fullmatch(value)):
                continue
            by_name[setting.name] = WrittenValue(value, f"environment variable {variable}")
            break
    return by_name


def from_file(settings: type[Settings], path: Path) -> dict[str, WrittenValue]:
    """The values of a YAML or JSON file: one map from the names of flags to values."""
    from trellis.base.yaml.documents import BrokenDocument, read_documents  # noqa: PLC0415 - most processes read no file

    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput(path.name, f"the settings file {path} cannot be read: {error.strerror}") from error
    documents = read_documents(text)
    if not documents:
        return {}
    document = documents[0]
    if isinstance(document, BrokenDocument):
        first = document.errors[0]
        raise InvalidInput(first.value, f"{path}, line {first.line}: {first.rule}") from first
    if len(documents) > 1 or not isinstance(document.value, dict):
        raise InvalidInput(path.name, f"a settings file must be one map from names to values, and {path} is not")
    names = [setting.name for setting in declared_settings(settings)]
    by_name: dict[str, WrittenValue] = {}
    for name, value in document.value.items():
        place = f"{path}, line {document.find_position((name,))[0]}"
        if name not in names:
            guess = suggest_name(name, names)
            raise InvalidInput(name, f"{place}: is not a setting" + (f" (did you mean {guess}?)" if guess else ""))
        by_name[name] = WrittenValue(value, f"{name} in {place}")
    return by_name


S = TypeVar("S", bound=Settings)


class LoadedSettings(msgspec.Struct, Generic[S], frozen=True):
    """Valid settings, and the origin of each that is not at its default."""

    settings: S
    origins: Mapping[str, str]


def load_settings(settings: type[S], *sources: Mapping[str, WrittenValue]) -> LoadedSettings[S]:
    """Settings from these sources, valid together; the first source that has a value wins."""
    loaded = combine_settings(settings, *sources)
    _refuse(
        [
            (
                setting.show(get_setting(loaded.settings, setting)),
                f"{loaded.origins.get(setting.name, f'default of {setting.name}')}: {rule}",
            )
            for setting, rule in find_conflicts(loaded.settings)
        ]
    )
    return loaded


def combine_settings(settings: type[S], *sources: Mapping[str, WrittenValue]) -> LoadedSettings[S]:
    """Settings whose values are valid one by one; rules over several settings are not checked."""
    refused: list[tuple[object, str]] = []
    origins: dict[str, str] = {}
    values: dict[tuple[str, ...], Any] = {}
    for setting in declared_settings(settings):
        written = next((source[setting.name] for source in sources if setting.name in source), None)
        if written is None:
            continue
        origins[setting.name] = written.origin
        try:
            values[setting.path] = setting.read(written.value)
        except InvalidInput as error:
            value = "(hidden)" if setting.setting.secret else written.value
            refused.append((value, f"{written.origin}: {_rule(error, written.value)}"))
    _refuse(refused)
    return LoadedSettings(replace_settings(settings(), values), origins)


def setting_values(settings: Settings) -> dict[str, str]:
    """Every setting and its value as text, for a log or a page; secrets are hidden."""
    return {setting.name: setting.show(get_setting(settings, setting)) for setting in declared_settings(type(settings))}


def _rule(error: InvalidInput, value: object) -> str:
    """The rule, with the part of the value that breaks it unless it is the whole value."""
    return error.rule if error.value == value else f"{format_value(error.value)} {error.rule}"


def replace_settings(base: S, values: Mapping[tuple[str, ...], Any]) -> S:
    """The settings with the values at these paths changed, in groups too."""
    changed: dict[str, Any] = {path[0]: value for path, value in values.items() if len(path) == 1}
    for group in {path[0] for path in values if len(path) > 1}:
        inner = {path[1:]: value for path, value in values.items() if path[0] == group}
        changed[group] = replace_settings(getattr(base, group), inner)
    return msgspec.structs.replace(base, **changed)


def find_conflicts(settings: Settings) -> Iterator[tuple[SettingDeclaration, str]]:
    """The rules over several settings that these break, each with the setting at fault."""
    by_name = {setting.name: setting for setting in declared_settings(type(settings))}
    for group in _groups(settings):
        for conflict in group.conflicts():
            yield by_name[conflict.setting], conflict.rule


def _groups(settings: Settings) -> Iterator[Settings]:
    yield settings
    for field in settings.__struct_fields__:
        value = getattr(settings, field)
        if isinstance(value, Settings):
            yield from _groups(value)


def get_setting(settings: Settings, setting: SettingDeclaration) -> Any:
    """The value of a setting."""
    value: Any = settings
    for step in setting.path:
        value = getattr(value, step)
    return value


def _refuse(refused: Sequence[tuple[object, str]]) -> None:
    if refused:
        (value, rule), *others = refused
        raise InvalidInput(value, "; ".join([rule, *(f"{format_value(value)}: {rule}" for value, rule in others)]))
