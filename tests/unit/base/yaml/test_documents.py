from __future__ import annotations

import json
import math
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trellis.base.errors import InvalidDocument
from trellis.base.yaml.documents import BrokenDocument, Document, read_documents

MANIFEST = """\
# A comment before everything.
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata:
  name: web
  labels: {app: web, "tier": front}
spec:
  updatePolicy:
    updateMode: Off
  buckets:
  - cpu: 100m
  - {cpu: 2, memory: 4Gi}
  - cpu: "3"
    memory: 1.5
"""


def document(text: str | bytes) -> Document:
    (only,) = read_documents(text)
    assert isinstance(only, Document), only
    return only


def value(text: str | bytes) -> Any:
    return document(text).value


def errors(text: str | bytes) -> tuple[InvalidDocument, ...]:
    (only,) = read_documents(text)
    assert isinstance(only, BrokenDocument), only
    return only.errors


def places_and_rules(text: str | bytes) -> list[tuple[int, int, str]]:
    return [(error.line, error.column, error.rule) for error in errors(text)]


# The documents of a file.


def test_a_manifest_is_read_into_plain_values() -> None:
    assert value(MANIFEST) == {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web", "labels": {"app": "web", "tier": "front"}},
        "spec": {
            "updatePolicy": {"updateMode": False},
            "buckets": [{"cpu": "100m"}, {"cpu": 2, "memory": "4Gi"}, {"cpu": "3", "memory": 1.5}],
        },
    }


def test_documents_are_numbered_by_separators_and_empty_ones_are_skipped() -> None:
    read = read_documents("---\na: 1\n---\n# nothing here\n--- # a comment\n\n\nb: 2\n---\n")
    assert [(one.number, one.line) for one in read] == [(1, 2), (3, 8)]


def test_a_licence_before_the_first_separator_is_no_document() -> None:
    assert document("# Licence\n\n---\na: 1\n").number == 1


def test_text_before_the_first_separator_is_the_first_document() -> None:
    assert [one.number for one in read_documents("a: 1\n---\nb: 2")] == [1, 2]


@pytest.mark.parametrize("text", ["", "\n", "# only\n# comments", "---\n---\n---", b"", "null\n", "~"])
def test_a_file_without_content_has_no_documents(text: str | bytes) -> None:
    assert read_documents(text) == []


def test_a_broken_document_hides_no_other() -> None:
    first, broken, last = read_documents("a: 1\n---\nb: [1\n---\nc: 3\n")
    assert isinstance(first, Document)
    assert isinstance(last, Document)
    assert isinstance(broken, BrokenDocument)
    assert (first.value, last.value) == ({"a": 1}, {"c": 3})
    assert (broken.number, broken.line) == (2, 3)


def test_lines_count_from_the_beginning_of_the_file() -> None:
    _, second = read_documents("a: 1\n---\n\nb: 2\nb: 3\n")
    assert isinstance(second, BrokenDocument)
    (error,) = second.errors
    assert (second.line, error.line, error.column) == (4, 5, 1)
    assert str(error) == '"b": key is written twice, first on line 4'


@pytest.mark.parametrize("line", ["--- {a: 1}", "---foo", "-----BEGIN CERTIFICATE-----"])
def test_text_on_the_line_of_a_separator_is_refused(line: str) -> None:
    first, second = read_documents(f"a: 1\n{line}\n")
    assert isinstance(first, Document)
    assert isinstance(second, BrokenDocument)
    assert (second.number, second.errors[0].line, second.errors[0].value) == (2, 2, line)


def test_an_end_marker_may_close_a_document() -> None:
    first, second = read_documents("a: 1\n...\n---\nb: 2\n... # done\n")
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert (first.value, second.value) == ({"a": 1}, {"b": 2})


@pytest.mark.parametrize("text", ["a: 1\n...\nb: 2\n", "a\n...\nb\n", "'a'\n--\n"])
def test_text_that_kubectl_would_drop_in_silence_is_refused(text: str) -> None:
    assert errors(text)


def test_a_directive_is_refused_because_kubectl_cannot_read_it() -> None:
    directive, rest = read_documents("%YAML 1.1\n---\na: 1\n")
    assert isinstance(directive, BrokenDocument)
    assert str(directive.errors[0]) == '"%YAML 1.1": kubectl does not support directives; remove the line'
    assert isinstance(rest, Document)


def test_a_block_at_the_end_of_a_file_has_its_line_break() -> None:
    assert value("a: |\n  x") == {"a": "x\n"}


@pytest.mark.parametrize("line_break", ["\r\n", "\r", "\n", "\u2028"])
def test_every_line_break_of_yaml_ends_a_comment(line_break: str) -> None:
    assert value(f"# comment{line_break}a: 1") == {"a": 1}


# Encodings.


def test_a_byte_order_mark_is_accepted() -> None:
    read = document(b"\xef\xbb\xbf---\na: 1\n")
    assert (read.value, read.number) == ({"a": 1}, 1)


def test_bytes_that_are_not_utf_8_break_only_their_document() -> None:
    first, second = read_documents(b"a: 1\n---\nb: ok\nc: \xe9t\xe9\n")
    assert isinstance(first, Document)
    assert isinstance(second, BrokenDocument)
    (error,) = second.errors
    assert (error.line, error.column, error.rule) == (4, 4, "byte 0xe9 is not UTF-8")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_refused(encoding: str) -> None:
    (error,) = errors("\ufeffa: 1".encode(encoding))
    assert error.value == "UTF-16"


def test_control_characters_are_refused_with_their_name() -> None:
    assert places_and_rules("a: 1\nb: é\x07") == [(2, 5, "the character U+0007 is not allowed in YAML")]


def test_half_of_a_surrogate_pair_is_refused() -> None:
    assert places_and_rules("a: \ud800") == [(1, 4, "the character U+D800 is not allowed in YAML")]


# JSON.


def test_json_indented_by_tabs_is_read() -> None:
    text = '{\n\t"kind": "Pod",\n\t"spec": {"n": 1.0, "yes": "no"}\n}\n'
    assert value(text) == {"kind": "Pod", "spec": {"n": 1, "yes": "no"}}
    assert document(text).find_position(("spec", "n")) == (3, 11)


def test_json_escapes_that_yaml_does_not_allow_are_accepted() -> None:
    content = {"emoji": "\N{GRINNING FACE}", "backslash": "\\ud83d\\ude00", "break": "a \u2028 b\x85c\x7f"}
    assert value(json.dumps(content)) == content
    assert value(json.dumps(content, ensure_ascii=False)) == content


def test_a_lone_surrogate_in_json_is_refused() -> None:
    assert errors('{"a": "\\ud83d"}')


def test_a_top_level_list_is_returned_to_the_caller() -> None:
    assert value("- a: 1\n- b: 2\n") == [{"a": 1}, {"b": 2}]
    assert value('[{"a": 1}]') == [{"a": 1}]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=20,
)


@given(json_values.filter(lambda content: content is not None), st.booleans(), st.sampled_from([None, 2, "\t"]))
def test_all_json_is_read_as_json(content: Any, ascii_only: bool, indent: int | str | None) -> None:
    wrapped = {"value": content}
    text = json.dumps(wrapped, ensure_ascii=ascii_only, indent=indent)
    if "Infinity" in text:
        return
    (read,) = read_documents(text)
    if isinstance(read, BrokenDocument):
        # Only characters that are no text, and those that YAML has no way to write down, may be refused.
        assert all("not allowed" in one.rule or "no character" in one.rule for one in read.errors)
    else:
        assert read.value == json.loads(json.dumps(wrapped))


# Scalars, keys and tags.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: yes", {"a": True}),
        ("a: 'yes'", {"a": "yes"}),
        ('a: "1"', {"a": "1"}),
        ("a: 1.0", {"a": 1}),
        ("a: 1:30", {"a": "1:30"}),
        ("a: 2001-01-01", {"a": "2001-01-01"}),
        ("a:", {"a": None}),
        ("a: ''", {"a": ""}),
        ("a: !!str 5", {"a": "5"}),
        ("a: ! 5", {"a": "5"}),
        ("a: !!int '5'", {"a": 5}),
        ("a: !!float 3", {"a": 3}),
        ("a: !!bool off", {"a": False}),
        ("a: !!null ''", {"a": None}),
        ("a: !!map {b: !!seq [c]}", {"a": {"b": ["c"]}}),
        ("1: x", {"1": "x"}),
        ("0x10: x", {"16": "x"}),
        ("on: x", {"true": "x"}),
        ("1.5: x", {"1.5": "x"}),
        ("2001-01-01: x", {"2001-01-01": "x"}),
        ("a: &n b\n*n : c", {"a": "b", "b": "c"}),
        ("'<<': {a: 1}", {"<<": {"a": 1}}),
        ("? a\n? b", {"a": None, "b": None}),
    ],
)
def test_scalars_and_keys_parse_as_in_kubectl(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize("text", ["a: .nan", "a: .inf", "a: [-.INF]", "a: !!float .inf"])
def test_numbers_that_json_cannot_carry_are_refused(text: str) -> None:
    (error,) = errors(text)
    assert error.rule == "not a number in JSON; quote it if it is text"


@pytest.mark.parametrize("tag", ["!Ref", "!!python/object:os.system", "!!binary", "!!timestamp", "!<tag:x,2000:y>"])
@pytest.mark.parametrize("content", ["x", "[x]", "{x: y}"])
def test_unknown_tags_are_refused(tag: str, content: str) -> None:
    ((line, column, rule),) = places_and_rules(f"a: 1\nb: {tag} {content}")
    assert (line, column) == (2, 4)
    assert "unknown tag" in rule


@pytest.mark.parametrize(
    "text", ["a: !!int x", "a: !!int 1.5", "a: !!bool 1", "a: !!null x", "a: !!float 9223372036854775808"]
)
def test_a_value_that_is_not_of_its_tag_is_refused(text: str) -> None:
    (error,) = errors(text)
    assert "is not of the type" in error.rule


@pytest.mark.parametrize("text", ["~: x", "? \n: x", "18446744073709551615: x", "[a]: x", "{a: b}: x", "a: {{ .x }}"])
def test_keys_that_are_not_text_are_refused(text: str) -> None:
    (error,) = errors(text)
    assert "a key must be text" in error.rule


def test_all_duplicate_keys_are_reported_with_the_line_of_the_first() -> None:
    text = "a: 1\nb:\n  c: 1\n  'c': 2\na: 2\nd: {e: 1, e: 2}\na: 3\n"
    assert places_and_rules(text) == [
        (4, 3, "key is written twice, first on line 3"),
        (5, 1, "key is written twice, first on line 1"),
        (6, 11, "key is written twice, first on line 6"),
        (7, 1, "key is written twice, first on line 1"),
    ]


def test_a_second_object_without_a_separator_is_answered_with_the_separator() -> None:
    first, second = errors("apiVersion: v1\nkind: Pod\napiVersion: v1\nkind: Service\n")
    assert (
        first.rule
        == 'key is written twice, first on line 1; if a second object begins here, write a line "---" above it'
    )
    assert second.rule == "key is written twice, first on line 2"
    (nested,) = errors("target:\n  apiVersion: v1\n  apiVersion: v1\n")
    assert "---" not in nested.rule


@pytest.mark.parametrize("text", ["1: a\n'1': b", "yes: a\ntrue: b", '{"a": 1, "a": 1}'])
def test_keys_that_become_the_same_text_are_duplicates(text: str) -> None:
    (error,) = errors(text)
    assert "written twice" in error.rule


# Anchors, aliases and merge keys.


def test_an_alias_refers_to_the_last_anchor_of_its_name() -> None:
    assert value("a: &x 1\nb: *x\nc: &x {d: 2}\ne: [*x, *x]") == {
        "a": 1,
        "b": 1,
        "c": {"d": 2},
        "e": [{"d": 2}] * 2,
    }


def test_values_of_an_alias_are_copies() -> None:
    read = value("a: &x {m: 1}\nb: *x")
    read["b"]["m"] = 2
    assert read["a"] == {"m": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<<: {k: 2}\nk: 1", {"k": 1}),
        ("k: 1\n<<: {k: 2}", {"k": 2}),
        ("<<: [{k: 1}, {k: 2, j: 3}]", {"k": 1, "j": 3}),
        ("<<: {<<: {k: 1}, j: 2}", {"k": 1, "j": 2}),
        ("<<: {a: 1}\n<<: {b: 2}", {"a": 1, "b": 2}),
        ("!!merge <<: {a: 1}", {"a": 1}),
        (
            "b: &b {x: {v: 1}, z: 1}\nc:\n  <<: *b\n  x: {w: 2}",
            {"b": {"x": {"v": 1}, "z": 1}, "c": {"x": {"w": 2}, "z": 1}},
        ),
    ],
)
def test_merge_keys_are_spelled_out_in_the_order_of_the_text(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize("text", ["<<: 5", "<<:", "<<: [1]", "a: &l [{b: 1}]\n<<: *l", "a: &l 1\n<<: [*l]"])
def test_only_maps_can_be_merged(text: str) -> None:
    (error,) = errors(text)
    assert error.value == "<<"


@pytest.mark.parametrize("text", ["a: &x [*x]", "a: &x {b: [1, {c: *x}]}", "&x {<<: *x}", "&x {*x : 1}"])
def test_a_recursive_value_is_refused(text: str) -> None:
    (error,) = errors(text)
    assert (error.value, error.rule) == ("*x", "stands within the value that it refers to")


def test_an_alias_without_an_anchor_is_refused() -> None:
    assert places_and_rules("a: *nowhere") == [(1, 4, "no anchor &nowhere stands above it; quote it if it is text")]


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{<<: [", "]}")])
def test_an_alias_bomb_is_refused_before_it_expands(opening: str, closing: str) -> None:
    nine_of = (", ".join([f"*a{level}"] * 9) for level in range(60))
    bombs = (f"a{level}: &a{level} {opening}{nine}{closing}" for level, nine in enumerate(nine_of, start=1))
    (error,) = errors("\n".join(["a0: &a0 {k: v, l: w}", *bombs]))
    assert error.rule == "the aliases up to here stand for more than 100000 values"


def test_aliases_that_pile_up_depth_are_refused() -> None:
    lines = ["a0: &a0 " + "[" * 100 + "]" * 100, "a1: &a1 " + "[" * 90 + "*a0" + "]" * 90]
    assert isinstance(read_documents("\n".join(lines))[0], Document)
    lines.append("a2: " + "[" * 20 + "*a1" + "]" * 20)
    ((line, _, rule),) = places_and_rules("\n".join(lines))
    assert (line, rule) == (3, "more than 200 levels deep")


# Limits.


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "[{a: "])
@pytest.mark.parametrize("count", [201, 100_000])
def test_nesting_beyond_200_levels_is_refused(opening: str, count: int) -> None:
    (error,) = errors(opening * count)
    assert error.rule == "more than 200 levels deep"


def test_200_levels_are_read() -> None:
    read = value("[" * 200 + "]" * 200)
    for _ in range(199):
        (read,) = read
    assert read == []


def test_a_document_beyond_the_limit_of_the_api_server_is_refused_with_both_sizes() -> None:
    first, second = read_documents("a: 1\n---\nb: " + "é" * 1_600_000 + "\n")
    assert isinstance(first, Document)
    assert isinstance(second, BrokenDocument)
    assert str(second.errors[0]).startswith('"3200004 bytes": the document is larger than the 3145728 bytes')


def test_a_document_just_below_the_limit_is_read() -> None:
    text = "b: " + "x" * (3 * 1024 * 1024 - 4) + "\n"
    assert len(value(text)["b"]) == 3 * 1024 * 1024 - 4


@pytest.mark.parametrize("digits", ["9" * 100_000, "0x" + "f" * 100_000, "0" * 100_000 + "9", "1." + "0" * 100_000])
def test_numbers_of_any_length_are_read(digits: str) -> None:
    assert "a" in value(f"a: {digits}")


# Syntax errors in plain words.


@pytest.mark.parametrize(
    ("text", "line", "column", "rule"),
    [
        ("a:\n\tb: c", 2, 1, "a tab is used for indentation; YAML allows only spaces"),
        ("a:\n  b: 1\n  \tc: 2", 3, 3, "a tab is used for indentation; YAML allows only spaces"),
        ("a: b\n\tc: d", 2, 1, "a tab is used for indentation; YAML allows only spaces"),
        ("a: b: c", 1, 5, "a colon is not expected here; quote the text or check the indentation"),
        ("a: [1, 2\nb: 3", 2, 2, "the list opened with [ on line 1 needs a comma or a ] here"),
        ('{"a": 1\n"b": 2}', 2, 4, "the map opened with { on line 1 needs a comma or a } here"),
        ('{"a": {"b": 1}', 1, 1, "this bracket or quote is never closed"),
        ('x: 1\na: "x\nb: 1', 2, 4, "this bracket or quote is never closed"),
        ("a: [1,", 1, 6, "a value is missing here"),
        (
            "a:\n  b: 1\n c: 2",
            3,
            2,
            "does not continue the map begun on line 1; check indentation and quotes",
        ),
        ("a: 'it's'", 1, 8, "does not continue the map begun on line 1; check indentation and quotes"),
        ("- a\nb: c", 2, 1, "does not continue the list begun on line 1; check the indentation"),
        ("a: 1\nb\nc: 1", 2, 1, "a key needs a colon and a space behind it"),
        ("a: *.example.com", 1, 4, "text that begins with * must be in quotes"),
        ("a: @x", 1, 4, "text that begins with @ must be in quotes"),
        ("a: - b", 1, 4, "a list item is not expected here; begin it on its own line"),
        (
            'a: "\\d"',
            1,
            5,
            "unknown escape in double quotes; write \\\\ for a backslash or use single quotes",
        ),
        ("a: |x\n  y", 1, 5, "only a comment may follow | or > on its line"),
        (
            '{"a": 1}\n{"b": 2}',
            2,
            1,
            "text after the end of the document; put a line --- between documents",
        ),
        ("a: [http://x?y=1]", 1, 5, "text with a ? within brackets must be in quotes"),
        ("{{- if x }}", 1, 3, "a value is missing here; a template must be rendered before it is read"),
    ],
)
def test_syntax_errors_have_a_rule_and_a_position(text: str, line: int, column: int, rule: str) -> None:
    assert places_and_rules(text) == [(line, column, rule)]


def test_without_libyaml_the_same_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = value(MANIFEST)
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    assert value(MANIFEST) == expected
    assert document(MANIFEST).find_position(("spec", "buckets", 1, "memory")) == (12, 14)
    assert errors("a: [")
    assert errors("a: \x07")
    assert errors("[" * 500)


# Positions and what was written.


@pytest.mark.parametrize(
    ("path", "position"),
    [
        ((), (2, 1)),
        (("kind",), (3, 1)),
        (("metadata", "labels"), (6, 3)),
        (("metadata", "labels", "app"), (6, 12)),
        (("metadata", "labels", "tier"), (6, 22)),
        (("spec", "buckets", 0), (11, 5)),
        (("spec", "buckets", 1), (12, 5)),
        (("spec", "buckets", 1, "memory"), (12, 14)),
        (("spec", "buckets", 2, "cpu"), (13, 5)),
        (("spec", "buckets", 2, "memory"), (14, 5)),
        (("status",), (2, 1)),
        (("spec", "missing"), (7, 1)),
        (("spec", "updatePolicy", "missing", "deeper"), (8, 3)),
        (("spec", "buckets", 3, "cpu"), (10, 3)),
        (("spec", "buckets", -1), (10, 3)),
        (("spec", "buckets", "cpu"), (10, 3)),
        (("kind", "below"), (3, 1)),
        (("metadata", 0), (4, 1)),
    ],
)
def test_a_path_leads_to_its_key_or_to_the_nearest_parent(
    path: tuple[str | int, ...], position: tuple[int, int]
) -> None:
    assert document(MANIFEST).find_position(path) == position


def test_positions_count_from_the_top_of_the_file() -> None:
    _, second = read_documents("a: 1\n---\n\n" + MANIFEST)
    assert isinstance(second, Document)
    assert second.line == 5
    assert second.find_position(("spec", "updatePolicy")) == (11, 3)


def test_positions_lead_through_aliases_and_merge_keys() -> None:
    read = document("base: &b\n  cpu: 1\n  memory: 2\ncopy: *b\nown:\n  <<: *b\n  cpu: 3\nlist: [*b]\n")
    assert read.find_position(("copy",)) == (4, 1)
    assert read.find_position(("copy", "memory")) == (3, 3)
    assert read.find_position(("own", "memory")) == (3, 3)
    assert read.find_position(("own", "cpu")) == (7, 3)
    assert read.find_position(("own", "missing")) == (5, 1)
    assert read.find_position(("list", 0)) == (8, 8)
    assert read.find_position(("list", 0, "cpu")) == (2, 3)


def test_columns_count_characters_and_windows_line_breaks_do_not_matter() -> None:
    read = document("\N{GRINNING FACE}: 1\r\n{}: {{é: 1, b: 2}}\r\n".format("x"))
    assert read.find_position(("x", "b")) == (2, 11)


def test_keys_that_were_not_text_are_found_by_their_text() -> None:
    assert document("a: 1\non: {1: x}").find_position(("true", "1")) == (2, 6)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a: Off", "Off"),
        ("a: &x Off", "Off"),
        ("b: &x 0x10\na: *x", "0x10"),
        ("a:", ""),
        ("a: 'Off'", None),
        ('a: "Off"', None),
        ("a: !!str Off", None),
        ("a: |\n  Off", None),
        ("a: [Off]", None),
        ("b: Off", None),
    ],
)
def test_the_source_of_an_unquoted_scalar_is_available(text: str, written: str | None) -> None:
    assert document(text).read_source(("a",)) == written


# Whatever the text, there is an answer.

WORDS = ["a", "b", "1", "yes", ".inf", "~", "0x", "é", "@", "`", "!!str ", "!", "%", "&x ", "*x", "<<: "]
STRUCTURE = [
    ": ",
    ":",
    "- ",
    "? ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "|",
    ">-\n",
    "#",
    "'",
    '"',
    "\\",
    "\\u",
    "---",
    "...",
]
SPACE = [" ", "\n", "\n  ", "\n\t", "\n---\n", "\r", "\u2028", "\ufeff", "\x00", "\ud800"]
yaml_pieces = st.lists(st.sampled_from([*WORDS, *STRUCTURE, *SPACE]), max_size=30).map("".join)


@st.composite
def mutations(draw: st.DrawFn) -> str:
    text = MANIFEST
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 3)))
        text = (
            text[:start]
            + draw(st.sampled_from(["", "\t", ":", "\n", " ", "'", "{", "]", "*", "&", "!", "a: "]))
            + text[end:]
        )
    return text


def is_json(content: Any) -> bool:
    if isinstance(content, dict):
        return all(isinstance(key, str) and is_json(inner) for key, inner in content.items())
    if isinstance(content, list):
        return all(map(is_json, content))
    if isinstance(content, float):
        return math.isfinite(content)
    return content is None or isinstance(content, str | bool | int)


def paths(content: Any) -> list[tuple[str | int, ...]]:
    steps = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [(), *((step, *rest) for step, inner in steps for rest in paths(inner))]


@given(st.text() | st.binary() | yaml_pieces | mutations())
@example("\ufeff---\n\ufeff")
@example("\ufeff\ufeff\ufeff\n@")
@example("a: \ud83d")
@example(b"\xff\xfe")
@settings(max_examples=150)
def test_any_text_parses_to_documents_or_errors_with_valid_positions(text: str | bytes) -> None:
    lines = text.count(b"\n" if isinstance(text, bytes) else "\n") + 1  # type: ignore[arg-type]
    read = read_documents(text)
    assert [one.number for one in read] == sorted({one.number for one in read})
    for one in read:
        assert 1 <= one.line <= lines
        if isinstance(one, Document):
            assert is_json(one.value)
            places = [one.find_position(path) for path in paths(one.value)]
        else:
            assert one.errors
            assert all("\n" not in str(error) and "{line}" not in str(error) for error in one.errors)
            places = [(error.line, error.column) for error in one.errors]
        assert all(1 <= line <= lines and column >= 1 for line, column in places)


@given(mutations())
def test_a_mutated_manifest_never_changes_its_neighbours(text: str) -> None:
    if text.startswith("---") or "\n---" in text:
        return
    first, *_, last = read_documents(f"first: 1\n---\n{text}\n---\nlast: 1\n")
    assert isinstance(first, Document)
    assert isinstance(last, Document)
    assert (first.value, last.value) == ({"first": 1}, {"last": 1})
