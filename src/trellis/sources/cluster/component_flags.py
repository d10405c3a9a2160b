"""Reads the flags of a component as its process gets them: from the command line, variables and a configuration file.

A flag wins over a variable, and a variable over the file, as in the component itself. What may be secret is left out.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit, urlunsplit

import yaml

from trellis.api.kube.coordination import ConfigMap
from trellis.api.kube.slices import Slice
from trellis.runtime.manager.settings import COMPONENTS

_PREFIX: Final = "TRELLIS_"
_KIND: Final = "TrellisConfiguration"
_UPPER: Final = re.compile(r"(?<!^)([A-Z])")
_FLAG: Final = re.compile(r"--?([A-Za-z0-9][A-Za-z0-9._-]*)(?:=(.*))?", re.DOTALL)
# Flags whose names match may hold secrets, and are left out.
_SECRET: Final = re.compile("token|passw|secret|credential|header|user|auth|key|cert", re.IGNORECASE)


class EnvironmentVariable(Slice, frozen=True):
    """A variable with a plain value."""

    name: str = ""
    value: str = ""


class ConfigMapVolumeSource(Slice, frozen=True):
    """A ConfigMap as a volume."""

    name: str = ""


class ConfigVolume(Slice, frozen=True):
    """A volume, if it is a ConfigMap."""

    config_map: ConfigMapVolumeSource | None = None


class CommandContainer(Slice, frozen=True):
    """A container with what it runs."""

    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvironmentVariable, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The command line."""
        return (*self.command, *self.args)


# Reads a ConfigMap of the component's namespace by its name; None if there is none, or if it may not be read.
ReadConfigMap: TypeAlias = Callable[[str], Awaitable[ConfigMap | None]]


async def read_flags(
    container: CommandContainer, volumes: Iterable[ConfigVolume], read: ReadConfigMap
) -> Mapping[str, str]:
    """All flags by name; those of one component in a process of several have its name in front."""
    variables = {variable.name: variable.value for variable in container.env if variable.name.startswith(_PREFIX)}
    flags = parse_flags((*_list_variable_flags(variables), *container.words))
    if "config" not in flags:
        return flags
    document = await _read_configuration(volumes, read)
    configured = parse_flags(tuple(_list_configured_flags(document)))
    return {**configured, **flags}


def parse_flags(words: Iterable[str]) -> Mapping[str, str]:
    """Flags by name, without those that may be secret; one without a value says `true`."""
    flags: dict[str, str] = {}
    last = ""
    for word in words:
        flag = _FLAG.fullmatch(word)
        if flag:
            last = flag[1] if flag[2] is None else ""
            flags[flag[1]] = "true" if flag[2] is None else flag[2]
        elif last:
            flags[last], last = word, ""
    return {name: _strip_login(value) for name, value in flags.items() if not _SECRET.search(name)}


def select_flags(flags: Mapping[str, str], component: str) -> Mapping[str, str]:
    """The flags of one component of a process of several, as its own process would have them."""
    shared = {name: value for name, value in flags.items() if "." not in name}
    prefix = f"{component}."
    return shared | {name.removeprefix(prefix): value for name, value in flags.items() if name.startswith(prefix)}


def _strip_login(value: str) -> str:
    """An address without the name and password that may be written into it."""
    if "://" not in value or "@" not in value:
        return value
    try:
        address = urlsplit(value)
    except ValueError:
        return ""
    return urlunsplit(address._replace(netloc=address.netloc.rpartition("@")[2]))


def _list_variable_flags(variables: Mapping[str, str]) -> Iterator[str]:
    for name, value in variables.items():
        flag = name.removeprefix(_PREFIX).lower().replace("_", "-")
        component = next((part for part in COMPONENTS if flag.startswith(f"{part}-")), "")
        # TRELLIS_UPDATER_INTERVAL is updater.interval in a process of several, and updater-interval of the updater.
        if component:
            yield f"--{component}.{flag.removeprefix(f'{component}-')}={value}"
        yield f"--{flag}={value}"


def _list_configured_flags(document: Mapping[str, Any]) -> Iterator[str]:
    for name, value in document.items():
        if name in COMPONENTS and isinstance(value, Mapping):
            yield from (f"--{name}.{_to_flag(field)}={_to_text(item)}" for field, item in value.items())
        elif name not in ("apiVersion", "kind"):
            yield f"--{_to_flag(name)}={_to_text(value)}"


def _to_flag(field: str) -> str:
    return _UPPER.sub(r"-\1", str(field)).lower()


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


async def _read_configuration(volumes: Iterable[ConfigVolume], read: ReadConfigMap) -> Mapping[str, Any]:
    """The configuration in the ConfigMaps that the pod mounts; empty if there is none, or if it may not be read."""
    for volume in volumes:
        if volume.config_map is None:
            continue
        config = await read(volume.config_map.name)
        for text in config.data.values() if config is not None else ():
            document = _load_yaml(text)
            if isinstance(document, Mapping) and document.get("kind") == _KIND:
                return document
    return {}


def _load_yaml(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None
