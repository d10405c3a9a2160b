"""Which JSON value a YAML tree stands for.

As sigs.k8s.io/yaml 1.6 has it: keys become text, merge keys are spelled out, and numbers are those that JSON
can carry. On top of that a key written twice is refused, as the strict decoding of the API server refuses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from trellis.base.yaml_problems import TEMPLATE, Problem
from trellis.base.yaml_scalars import Scalar, json_number, key_text, plain_scalar
from trellis.base.yaml_tree import AliasNode, MappingNode, Node, ScalarNode, SequenceNode

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Fields = dict[str, tuple[Node, Node]]

_FITS: Final[dict[str, Callable[[Scalar], bool]]] = {
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    # go-yaml turns an integer into a float for the asking, but not one that needs the 64th bit.
    "float": lambda value: isinstance(value, float) or (type(value) is int and value < 2**63),
    "bool": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def value_of(node: Node, problems: list[Problem]) -> Json:
    """The JSON value of a tree. What is wrong is added to `problems`, and the value is then of no use."""
    if isinstance(node, AliasNode):
        node = node.target
    if isinstance(node, ScalarNode):
        return _json_scalar(node, problems)
    if isinstance(node, SequenceNode):
        return [value_of(child, problems) for child in node.children]
    return {name: value_of(value, problems) for name, (_, value) in fields_of(node, problems).items()}


def fields_of(node: MappingNode, problems: list[Problem]) -> Fields:
    """Key and value of every field of a map, merge keys spelled out.

    A merge key takes effect where it stands: of a merged field and a written one, the later wins. YAML says
    otherwise (what is written wins), but go-yaml v2 goes by the order, and with it all that kubectl applies.
    """
    fields: Fields = {}
    written: dict[str, int] = {}
    children = iter(node.children)
    for key, value in zip(children, children, strict=True):
        if isinstance(key, ScalarNode) and key.text == "<<" and (key.plain or key.tag == "merge"):
            for source in _merge_sources(value, problems):
                fields.update(fields_of(source, problems))
            continue
        name = _name(key, problems)
        if name is None:
            continue
        if name in written:
            problems.append(Problem(key.at, name, "key is written twice, first on line {line}", written[name]))
        written.setdefault(name, key.at)
        fields[name] = (key, value)
    return fields


def scalar_of(node: ScalarNode, problems: list[Problem]) -> Scalar:
    """What a scalar means, by its quotes, its tag and its text."""
    if node.plain:
        return plain_scalar(node.text)
    if node.tag is None or node.tag in {"str", "merge"}:
        return node.text
    value = plain_scalar(node.text)
    if not _FITS[node.tag](value):
        problems.append(Problem(node.at, node.text, f"is not of the type !!{node.tag}"))
    return value


def _json_scalar(node: ScalarNode, problems: list[Problem]) -> Scalar:
    value = scalar_of(node, problems)
    if isinstance(value, float):
        if not math.isfinite(value):
            problems.append(Problem(node.at, node.text, "JSON has no such number; quote it if it is text"))
            return None
        return json_number(value)
    return value


def _name(key: Node, problems: list[Problem]) -> str | None:
    node = key.target if isinstance(key, AliasNode) else key
    if isinstance(node, MappingNode):
        # This is what `{{ .Values.name }}` looks like to YAML; hardly anything else has a map for a key.
        problems.append(Problem(key.at, "{", f"a key must be text, not a map; {TEMPLATE}"))
        return None
    if isinstance(node, SequenceNode):
        problems.append(Problem(key.at, "[", "a key must be text, not a list"))
        return None
    name = key_text(scalar_of(node, problems))
    if name is None:
        problems.append(Problem(key.at, node.text, "a key must be text; put it in quotes"))
    return name


def _merge_sources(value: Node, problems: list[Problem]) -> Iterator[MappingNode]:
    """The maps behind a merge key, weakest first: of several maps in a list the first one wins."""
    for node in reversed(value.children) if isinstance(value, SequenceNode) else [value]:
        source = node.target if isinstance(node, AliasNode) else node
        if isinstance(source, MappingNode):
            yield source
        else:
            problems.append(Problem(value.at, "<<", "a merge key needs a map, an alias of a map, or a list of those"))
