"""YAML as people write manifests: block style, short lists in brackets, comments, and no quotes without need."""

from __future__ import annotations

import json
import re
import textwrap
from typing import Any, Final

_WIDTH: Final = 120
_PLAIN: Final = re.compile(
    r"(?:--[a-z]|[A-Za-z_/.$(])[A-Za-z0-9_/.$()%=,+-]*(?::[A-Za-z0-9_/.$()%=,+-]+)*(?: [A-Za-z0-9_/.()=,+'-]+)*"
)
# Texts that YAML 1.1 or 1.2 read as something else.
_RESERVED: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"})
# An amount with a unit, such as 50m or 500Mi, is a text; all else that begins like a number may be one.
_AMOUNT: Final = re.compile(r"[0-9]+(m|s|h|Ki|Mi|Gi)")
_NUMBER: Final = re.compile(r"[.+-]?[0-9].*|\.(inf|nan)", re.IGNORECASE)

_LAST_SHORT: Final = 0xFFFF


def write_scalar(value: Any) -> str:
    """A text, number, truth or null on one line."""
    if not isinstance(value, str):
        return json.dumps(value)
    if _AMOUNT.fullmatch(value):
        return value
    if _PLAIN.fullmatch(value) and value.lower() not in _RESERVED and not _NUMBER.fullmatch(value):
        return value
    return _quote(value)


def _quote(text: str) -> str:
    if text.isprintable():
        return json.dumps(text, ensure_ascii=False)
    # JSON has two escapes for a character above U+FFFF, YAML one.
    return "".join(f"\\U{ord(it):08x}" if ord(it) > _LAST_SHORT else json.dumps(it)[1:-1] for it in text).join('""')


def is_block(text: str) -> bool:
    """Whether a text can be written as lines below `|` without loss."""
    lines = text.split("\n")
    return (
        len(lines) > 2
        and not lines[-1]
        and bool(lines[-2])
        and not lines[0].startswith(" ")
        and bool(lines[0])
        and all(line.isprintable() and line == line.rstrip() for line in lines)
    )


def write_comment(text: str, indent: int) -> list[str]:
    """A comment, wrapped; an empty line in it stays one."""
    prefix = " " * indent + "# "
    lines: list[str] = []
    for paragraph in text.split("\n"):
        wrapped = textwrap.wrap(paragraph, _WIDTH - len(prefix), break_long_words=False, break_on_hyphens=False)
        lines += [prefix + line for line in wrapped] or [prefix.rstrip()]
    return lines


def write_flow(value: Any) -> str:
    """A structure on one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(write_flow, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_quote(key)}: {write_flow(part)}' for key, part in value.items())}}}"
    return _quote(value) if isinstance(value, str) else json.dumps(value)


def write_flow_list(items: list[Any], column: int) -> str | None:
    """A list of plain values in brackets, from this column on; None if it does not fit into the line."""
    if any(isinstance(item, str) and "\n" in item for item in items):
        return None
    text = f"[{', '.join(_write_in_brackets(item) for item in items)}]"
    return text if column + len(text) <= _WIDTH else None


def _write_in_brackets(item: Any) -> str:
    text = write_scalar(item)
    return text if text.startswith('"') or "," not in text else _quote(item)


def write_block_text(text: str, indent: int) -> list[str]:
    """The lines of a text below `|`."""
    return [(" " * indent + line).rstrip() for line in text.rstrip("\n").split("\n")]
