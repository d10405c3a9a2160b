"""Trees printed as YAML and as templates of Helm."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trellis.api.schema.tree import JsonShape
from trellis.install.tree.nodes import (
    ITEM,
    NAMESPACE,
    Choice,
    Commented,
    Equals,
    ForEach,
    Named,
    Value,
    When,
    YamlText,
    extend,
    format_text,
)
from trellis.install.tree.printing import TemplatePrinter, print_yaml

SHAPES = {"replicas": JsonShape.INTEGER, "on": JsonShape.BOOLEAN, "labels": JsonShape.MAP, "args": JsonShape.LIST}

TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "",
            "yes",
            "null",
            "1.0",
            "0x1f",
            "1e3",
            "- a",
            "a: b",
            "a #b",
            "{{ x }}",
            "'",
            '"',
            "--x=y",
            "---",
            "50m",
            "~",
            "two\nlines\n",
            "two\nlines",
            " lead\nx\n",
            "trail \nx\n",
            "a\n\n",
            "\n",
            "2020-01-01",
            "12:30",
            "@a",
            "%a",
        ]
    ),
)
DATA = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**31), 2**31), TEXTS),
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(TEXTS.filter(bool), below, max_size=3)),
    max_leaves=12,
)


def template(tree: Any) -> str:
    printer = TemplatePrinter(lambda path: SHAPES.get(path, JsonShape.STRING))
    return printer.print_documents([tree])


@given(st.lists(st.dictionaries(TEXTS.filter(bool), DATA, min_size=1, max_size=4), min_size=1, max_size=3))
def test_plain_data_is_the_same_after_writing_and_reading(documents: list[dict[str, Any]]) -> None:
    assert list(yaml.safe_load_all(print_yaml(documents))) == documents


def test_comments_are_written_above_and_wrapped() -> None:
    text = print_yaml([{"rules": [Commented("word " * 40, {"verbs": ["get", "list"]}), {"verbs": ["watch"]}]}])
    lines = text.splitlines()
    assert lines[1] == "rules:"
    assert [line.startswith("# word") for line in lines[2:4]] == [True, True]
    assert lines[4:] == ["- verbs: [get, list]", "- verbs: [watch]"]
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"k": Value("replicas")}, "k: {{ .Values.replicas | int }}"),
        ({"k": Value("name")}, "k: {{ .Values.name | quote }}"),
        ({"k": Value("on")}, "k: {{ .Values.on }}"),
        ({"k": NAMESPACE}, "k: {{ .Release.Namespace | quote }}"),
        ({"k": Value("labels")}, "k:\n  {{- toYaml .Values.labels | nindent 2 }}"),
        ({"k": format_text("%s=%d", Value("a"), Value("replicas"))},
         'k: {{ printf "%s=%d" .Values.a (int .Values.replicas) | quote }}'),
        ({"a": When(Value("on"), 1)}, "{{- if .Values.on }}\na: 1\n{{- end }}"),
        ({"a": [1, When(Equals(Value("x"), "y"), 2)]}, 'a:\n- 1\n{{- if eq .Values.x "y" }}\n- 2\n{{- end }}'),
        ({"a": extend(["x"], Value("args"))}, "a:\n- x\n{{- with .Values.args }}\n{{ toYaml . }}\n{{- end }}"),
        ({"a": {"b": extend({}, Value("labels"))}},
         "a:\n  b:\n    {{- with .Values.labels }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}"),
        ({"a": [ForEach(Value("args"), {"k": ITEM, "s": NAMESPACE})]},
         "a:\n{{- range .Values.args }}\n- k: {{ . | toJson }}\n  s: {{ $.Release.Namespace | quote }}\n{{- end }}"),
        ({"a": YamlText("kind: A\n", Value("labels"))}, "a: |\n  kind: A\n  {{- toYaml .Values.labels | nindent 2 }}"),
        ({"a": "{{ x }}"}, 'a: "{{ "{{" }} x }}"'),
    ],
)  # fmt: skip
def test_a_node_becomes_what_helm_understands(tree: Any, text: str) -> None:
    assert template(tree) == f"---\n{text}\n"


def test_a_conditional_document_has_its_separator_inside() -> None:
    assert template(When(Value("on"), {"a": 1})) == "{{- if .Values.on }}\n---\na: 1\n{{- end }}\n"


def test_what_has_a_name_is_defined_once() -> None:
    printer = TemplatePrinter(lambda _: JsonShape.STRING)
    inner = Named("inner", Equals(Value("x"), "y"))
    outer = Named("outer", Choice(inner, "a", "b"))
    assert printer.print_documents([{"a": outer, "b": When(inner, 1)}]) == (
        '---\na: {{ include "trellis.outer" . | quote }}\n{{- if include "trellis.inner" . }}\nb: 1\n{{- end }}\n'
    )
    definitions = printer.print_definitions()
    assert definitions.count("{{- define") == 2
    assert '{{- if eq .Values.x "y" }}true{{- end }}' in definitions
    assert '(ternary "a" "b" (not (not (include "trellis.inner" .))))' in definitions
