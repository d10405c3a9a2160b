"""Resolves a YAML tree to the JSON value that it stands for.

As sigs.k8s.io/yaml 1.6 has it: keys become text, merge keys are spelled out, and numbers are those that JSON
can carry. On top of that a key written twice is refused, as the strict decoding of the API server refuses it.

Unquoted scalars mean what they mean to kubectl (go-yaml v2 under sigs.k8s.io/yaml 1.6), not to PyYAML. The two differ
where it hurts: `y` and `n` are booleans, `1:30` is text and not ninety, `08` is 8, `0o17` is octal, a date is text.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from typing import Final

from trellis.base.yaml.parser import TEMPLATE, AliasNode, MappingNode, ScalarNode, SequenceNode, YamlNode, YamlProblem

Scalar = str | int | float | bool | None

# Go tries 64 bits signed, then unsigned. What fits neither is a float if decimal, else text.
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**63 - 1
_UINT_MAX: Final = 2**64 - 1

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_MAY_BE_A_WORD: Final = frozenset("yYnNtTfFoO~")
_MAY_BE_A_NUMBER: Final = frozenset("0123456789+-.")

_PREFIXED: Final = re.compile(r"([-+]?)0(?:[xX]([0-9a-fA-F]+)|[bB]([01]+)|[oO]?([0-7]+))")
_DECIMAL: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,19})")
# go-yaml has a second look at binary numbers, and that one lets a sign stand behind the prefix.
_SIGN_INSIDE: Final = re.compile(r"0b([-+][01]+)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# A number that begins with the dot takes another road in go-yaml: underscores only between two digits.
_DOT_FLOAT: Final = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")


def resolve_plain_scalar(text: str) -> Scalar:
    """The value of a scalar that was written without quotes and without a tag."""
    if not text:
        return None
    first = text[0]
    if first in _MAY_BE_A_WORD:
        return _WORDS.get(text, text)
    if first in _MAY_BE_A_NUMBER:
        return _WORDS[text] if text in _WORDS else _resolve_number(text)
    return text


def format_key(value: Scalar) -> str | None:
    """The name that a scalar gets when it is the key of a map, None if JSON has no name for it.

    An integer beyond int64 and null have none: sigs.k8s.io/yaml refuses both.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value <= _INT_MAX else None
    return _format_float_key(value)


def convert_json_number(value: float) -> int | float:
    """A float as it arrives at the API server: JSON writes 1.0 and 1e3 as 1 and 1000, which are integers."""
    return int(value) if value.is_integer() and _INT_MIN <= value <= _INT_MAX else value


def _resolve_number(text: str) -> Scalar:
    if text[0] == ".":
        return _convert_finite(text, text.replace("_", "")) if _DOT_FLOAT.fullmatch(text) else text
    plain = text.replace("_", "")
    number = _resolve_integer(plain)
    if number is not None:
        return number
    if _FLOAT.fullmatch(plain):
        return _convert_finite(text, plain)
    inside = _SIGN_INSIDE.fullmatch(plain)
    if inside and _INT_MIN <= (number := int(inside[1], 2)) <= _INT_MAX:
        return number
    return text


def _resolve_integer(plain: str) -> int | None:
    if _DECIMAL.fullmatch(plain):
        number = int(plain)
    elif match := _PREFIXED.fullmatch(plain):
        sign, hexadecimal, binary, octal = match.groups()
        # Bases that are powers of two convert in linear time, so a megabyte of digits does no harm here.
        number = int(hexadecimal, 16) if hexadecimal else int(binary, 2) if binary else int(octal, 8)
        number = -number if sign == "-" else number
    else:
        return None
    # ParseUint knows no sign, so `+` ends the range at int64 as `-` does.
    highest = _INT_MAX if plain[0] == "+" else _UINT_MAX
    return number if _INT_MIN <= number <= highest else None


def _convert_finite(text: str, plain: str) -> float | str:
    """Beyond the range of a float Go reports an error, and go-yaml falls back to the text."""
    number = float(plain)
    return text if math.isinf(number) else number


def _format_float_key(value: float) -> str:
    """The shortest digits that hold as a 32-bit float: sigs.k8s.io/yaml formats float keys so."""
    if math.isnan(value):
        return ".nan"
    try:
        (narrow,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        narrow = math.copysign(math.inf, value)
    if math.isinf(narrow):
        return ".inf" if narrow > 0 else "-.inf"
    for digits in range(9):  # 9 significant digits tell any two 32-bit floats apart
        text = f"{narrow:.{digits}e}"
        if struct.pack("f", float(text)) == struct.pack("f", narrow):
            break
    exponent = int(text.partition("e")[2])
    return text if not -4 <= exponent < 6 else f"{float(text):.{max(digits - exponent, 0)}f}"


Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
MappingFields = dict[str, tuple[YamlNode, YamlNode]]

_FITS: Final[dict[str, Callable[[Scalar], bool]]] = {
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    # go-yaml turns an integer into a float for the asking, but not one that needs the 64th bit.
    "float": lambda value: isinstance(value, float) or (type(value) is int and value < 2**63),
    "bool": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


# The rule for a key that a map already has.
WRITTEN_TWICE: Final = "key is written twice, first on line {line}"


def resolve_value(node: YamlNode, problems: list[YamlProblem]) -> Json:
    """The JSON value of a tree. If `problems` grows, the value is incomplete."""
    if isinstance(node, AliasNode):
        node = node.target
    if isinstance(node, ScalarNode):
        return _json_scalar(node, problems)
    if isinstance(node, SequenceNode):
        return [resolve_value(child, problems) for child in node.children]
    return {name: resolve_value(value, problems) for name, (_, value) in resolve_fields(node, problems).items()}


def resolve_fields(node: MappingNode, problems: list[YamlProblem]) -> MappingFields:
    """Key and value of every field of a map, merge keys spelled out.

    A merge key takes effect where it stands: of a merged field and a written one, the later wins. YAML says
    otherwise (what is written wins), but go-yaml v2 goes by the order, and with it all that kubectl applies.
    """
    fields: MappingFields = {}
    written: dict[str, int] = {}
    children = iter(node.children)
    for key, value in zip(children, children, strict=True):
        if isinstance(key, ScalarNode) and key.text == "<<" and (key.plain or key.tag == "merge"):
            for source in _iterate_merge_sources(value, problems):
                fields.update(resolve_fields(source, problems))
            continue
        name = _resolve_name(key, problems)
        if name is None:
            continue
        if name in written:
            problems.append(YamlProblem(key.offset, name, WRITTEN_TWICE, written[name]))
        written.setdefault(name, key.offset)
        fields[name] = (key, value)
    return fields


def resolve_scalar(node: ScalarNode, problems: list[YamlProblem]) -> Scalar:
    """What a scalar means, by its quotes, its tag and its text."""
    if node.plain:
        return resolve_plain_scalar(node.text)
    if node.tag is None or node.tag in {"str", "merge"}:
        return node.text
    value = resolve_plain_scalar(node.text)
    if not _FITS[node.tag](value):
        problems.append(YamlProblem(node.offset, node.text, f"is not of the type !!{node.tag}"))
    return value


def _json_scalar(node: ScalarNode, problems: list[YamlProblem]) -> Scalar:
    value = resolve_scalar(node, problems)
    if isinstance(value, float):
        if not math.isfinite(value):
            problems.append(YamlProblem(node.offset, node.text, "not a number in JSON; quote it if it is text"))
            return None
        return convert_json_number(value)
    return value


def _resolve_name(key: YamlNode, problems: list[YamlProblem]) -> str | None:
    node = key.target if isinstance(key, AliasNode) else key
    if isinstance(node, MappingNode):
        # This is what `{{ .Values.name }}` looks like to YAML; hardly anything else has a map for a key.
        problems.append(YamlProblem(key.offset, "{", f"a key must be text, not a map; {TEMPLATE}"))
        return None
    if isinstance(node, SequenceNode):
        problems.append(YamlProblem(key.offset, "[", "a key must be text, not a list"))
        return None
    name = format_key(resolve_scalar(node, problems))
    if name is None:
        problems.append(YamlProblem(key.offset, node.text, "a key must be text; put it in quotes"))
    return name


def _iterate_merge_sources(value: YamlNode, problems: list[YamlProblem]) -> Iterator[MappingNode]:
    """The maps behind a merge key, weakest first: of several maps in a list the first one wins."""
    for node in reversed(value.children) if isinstance(value, SequenceNode) else [value]:
        source = node.target if isinstance(node, AliasNode) else node
        if isinstance(source, MappingNode):
            yield source
        else:
            problems.append(
                YamlProblem(value.offset, "<<", "a merge key needs a map, an alias of a map, or a list of those")
            )
