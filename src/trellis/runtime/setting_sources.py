"""Who wrote the values of settings, and where? Flags, the environment and a file, each read in its own spelling.

What comes out is what was written, not what it means: that is for `setting_loading`, so that every refusal can name
the place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from trellis.base.errors import InvalidInput
from trellis.base.names import nearest
from trellis.runtime.settings import Settings, declared

# Kubernetes tells every pod of the services around it: one named trellis-webhook sets TRELLIS_WEBHOOK_PORT to this.
_SERVICE_LINK: Final = re.compile(r"(tcp|udp|sctp)://.*")


class Written(msgspec.Struct, frozen=True):
    """A value as somebody wrote it, and where, in words that name the setting."""

    value: object
    origin: str


def from_flags(settings: type[Settings], parameters: Mapping[str, object]) -> dict[str, Written]:
    """What was given on the command line, from the parameters that click found."""
    found: dict[str, Written] = {}
    for each in declared(settings):
        value = parameters.get(each.parameter)
        if isinstance(value, tuple):
            value = ",".join(value) if value else None
        if isinstance(value, str) and each.about.letter:
            value = value.removeprefix("=")  # What click makes of `-v=4`.
        if value is not None:
            found[each.name] = Written(value, f"flag --{each.name}")
    return found


def from_environment(settings: type[Settings], environment: Mapping[str, str]) -> dict[str, Written]:
    """What variables say. Those that are no settings are ignored: Kubernetes adds some of its own for every service."""
    found: dict[str, Written] = {}
    for each in declared(settings):
        for variable in (each.variable, each.about.variable):
            value = environment.get(variable)
            if value is None or (variable.endswith("_PORT") and _SERVICE_LINK.fullmatch(value)):
                continue
            found[each.name] = Written(value, f"environment variable {variable}")
            break
    return found


def from_file(settings: type[Settings], path: Path) -> dict[str, Written]:
    """What a YAML or JSON file says: one map from the names of settings, those of the flags, to values."""
    from trellis.base.documents import BrokenDocument, read_documents  # noqa: PLC0415 - most processes read no file

    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput(path.name, f"the file of settings {path} cannot be read: {error.strerror}") from error
    documents = read_documents(text)
    if not documents:
        return {}
    document = documents[0]
    if isinstance(document, BrokenDocument):
        first = document.errors[0]
        raise InvalidInput(first.value, f"{path}, line {first.line}: {first.rule}") from first
    if len(documents) > 1 or not isinstance(document.value, dict):
        raise InvalidInput(path.name, f"a file of settings is one map from names to values, and {path} is not")
    names = [each.name for each in declared(settings)]
    found: dict[str, Written] = {}
    for name, value in document.value.items():
        place = f"{path}, line {document.position((name,))[0]}"
        if name not in names:
            guess = nearest(name, names)
            raise InvalidInput(name, f"{place}: is no setting" + (f" (did you mean {guess}?)" if guess else ""))
        found[name] = Written(value, f"{name} in {place}")
    return found
