"""What the last stage of a Containerfile says about the image, for a build without a builder."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def read_configuration(file: Path, arguments: Mapping[str, str]) -> dict[str, Any]:
    """The configuration of the image as OCI writes it, with these build arguments."""
    configuration: dict[str, Any] = {"WorkingDir": "/"}
    values: dict[str, str] = {}
    for instruction, text in list_instructions(file.read_text()):
        if instruction == "ARG":
            name, _, default = text.partition("=")
            values[name] = arguments.get(name, values.get(name, default))
            continue
        if instruction == "FROM":
            configuration = {"WorkingDir": "/"}
        expanded = _VARIABLE.sub(lambda match: values.get(match[1], ""), text)
        if instruction == "LABEL":
            pairs = (pair.partition("=") for pair in shlex.split(expanded))
            configuration["Labels"] = {name: value for name, _, value in pairs}
        elif instruction == "ENV":
            configuration["Env"] = shlex.split(expanded)
        elif instruction == "USER":
            configuration["User"] = expanded
        elif instruction in {"ENTRYPOINT", "CMD"}:
            configuration[instruction.capitalize()] = json.loads(expanded)
    return configuration


def list_instructions(text: str) -> Iterator[tuple[str, str]]:
    """Each instruction and what follows it, without comments, on one line."""
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        instruction, _, rest = line.strip().partition(" ")
        if instruction:
            yield instruction, rest.strip()
