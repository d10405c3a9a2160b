"""Writes the settings that a process has as a configuration file, each with the origin of its value.

The text is a valid file with the same effect. Secrets are in comments, and are not shown. Nor is what has no value.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from trellis.runtime.manager.configuration import API_VERSION, KIND
from trellis.runtime.manager.configuration.changes import PendingChange
from trellis.runtime.manager.configuration.fields import component_fields, secret_fields, shared_fields
from trellis.runtime.manager.layers import LoadedProcess
from trellis.runtime.settings.declarations import SettingDeclaration
from trellis.runtime.settings.loader import LoadedSettings, get_setting
from trellis.runtime.telemetry.logs import redact

# Text that YAML reads as the same text without quotes: words, durations, and amounts with a suffix.
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*|([0-9.]+(ns|us|ms|s|m|h))+|[0-9]+(Ki|Mi|Gi|Ti|m|k|M|G)")
# Words that YAML 1.1 reads as true, false or nothing.
_RESERVED: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def render_configuration(
    loaded: LoadedProcess, pending: Sequence[PendingChange] = (), heading: Iterable[str] = ()
) -> str:
    """The file, below lines of comment."""
    changes = {(change.component, change.declared.field): change for change in pending}
    lines = [*(f"# {line}" for line in heading), f"apiVersion: {API_VERSION}", f"kind: {KIND}"]
    for declared in shared_fields().values():
        lines += [_render_setting(declared, loaded.process, changes.get(("", declared.field)))]
    for name, own in loaded.components.items():
        lines += [f"{name}:", *(f"  {line}" for line in _render_component(loaded, name, own, changes))]
    return "\n".join([*lines, ""])


def compute_settings_hash(loaded: LoadedProcess) -> str:
    """A short hash of all values but secrets: equal for processes with the same settings."""
    values: dict[str, Any] = {"": _list_values(shared_fields().values(), loaded.process)}
    for name, own in loaded.components.items():
        values[name] = _list_values(component_fields(type(own.settings), name).values(), own)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def list_own(loaded: LoadedProcess, name: str) -> Iterator[SettingDeclaration]:
    """The settings of a component that its object has to contain: those that are not shared, or have another value."""
    own = loaded.components[name].settings
    shared = shared_fields()
    for field, declared in component_fields(type(own), name).items():
        if field not in shared or get_setting(loaded.process.settings, shared[field]) != get_setting(own, declared):
            yield declared


def _render_component(
    loaded: LoadedProcess, name: str, own: LoadedSettings[Any], changes: Mapping[tuple[str, str], PendingChange]
) -> Iterator[str]:
    for declared in list_own(loaded, name):
        yield _render_setting(declared, own, changes.get((name, declared.field)))
    for secret in secret_fields(type(own.settings)).values():
        if get_setting(own.settings, secret):
            yield f"# {secret.field}: (hidden)  # {_describe_origin(secret, own)}"


def _list_values(fields: Iterable[SettingDeclaration], loaded: LoadedSettings[Any]) -> dict[str, Any]:
    return {declared.field: _to_json(declared, get_setting(loaded.settings, declared)) for declared in fields}


def _render_setting(declared: SettingDeclaration, loaded: LoadedSettings[Any], change: PendingChange | None) -> str:
    value = _to_json(declared, get_setting(loaded.settings, declared))
    origin = _describe_origin(declared, loaded)
    if change is not None:
        origin += f"; the file has {_format(_to_json(declared, change.value))}, which needs a restart of the process"
    if value is None:
        return f"# {declared.field}: unset  # {origin}"
    return f"{declared.field}: {_format(value)}  # {origin}"


def _describe_origin(declared: SettingDeclaration, loaded: LoadedSettings[Any]) -> str:
    if declared.name in loaded.origins:
        origin = loaded.origins[declared.name]
        # The field is at the beginning of the line already.
        return origin.partition(" in ")[2] if " in " in origin and ", line " in origin else origin
    return "default" if get_setting(loaded.settings, declared) == declared.default else "follows another setting"


def _to_json(declared: SettingDeclaration, value: Any) -> Any:
    return None if value is None else _redact(declared.kind.to_json(value))


def _redact(value: Any) -> Any:
    """The value without what looks like a credential, such as a password in an address."""
    if isinstance(value, list):
        return [_redact(item) for item in value]
    return redact(value) if isinstance(value, str) else value


def _format(value: Any) -> str:
    """A value in the flow style of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_format(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_format, value)) + "]"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value.lower() not in _RESERVED else _quote(value)
    if isinstance(value, float):
        return _format_number(value)
    return json.dumps(value)


def _quote(text: str) -> str:
    """Text in double quotes. JSON escapes a character beyond two bytes as two characters, which YAML does not."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


def _format_number(value: float) -> str:
    if value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    text = repr(value)
    # YAML 1.1 reads 1e-05 as text.
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
