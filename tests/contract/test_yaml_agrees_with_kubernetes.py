"""A document is read as sigs.k8s.io/yaml reads it, and refused where that refuses it.

The oracle decodes strictly. It refuses a merged field that is written again, which kubectl does not; such
documents are kept out here, and `test_documents.py` holds the facts about them.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from support.oracles.kubernetes import Oracle
from trellis.base.yaml.documents import BrokenDocument, Document, read_documents

# What is refused here on purpose though sigs.k8s.io/yaml has an answer: it drops tags that it does not know, and
# within brackets it takes a colon for the last letter of a word.
STRICTER = ("tag", "whitespace or line break", "a colon is not expected here; quote the text")

against_the_oracle = settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def same(ours: Any, theirs: Any) -> bool:
    """Equal as JSON: 1 and 1.0 are one number, 1 and true are two values."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, int | float) and isinstance(theirs, int | float):
        return ours == theirs or float(ours) == float(theirs)
    return type(ours) is type(theirs) and bool(ours == theirs)


def compare(oracle: Oracle, text: str) -> None:
    decision = oracle.yaml(text)
    read = read_documents(text)
    broken = [error for one in read if isinstance(one, BrokenDocument) for error in one.errors]
    values = [one.value for one in read if isinstance(one, Document)]
    if not decision.ok:
        assert broken, (text, decision.why)
    elif broken:
        assert any(word in error.rule for error in broken for word in STRICTER), (text, str(broken[0]))
    else:
        # A document that says null is left out here, as kubectl leaves it out.
        assert same(values or [None], [decision.value]), (text, values, decision.value)


BOOLEANS = ["y", "Y", "n", "yes", "No", "on", "Off", "OFF", "oFF", "true", "False", "tRUE"]
OTHERS = [
    "~",
    "null",
    "Null",
    "nULL",
    ".nan",
    ".inf",
    "-.Inf",
    "+.INF",
    "2001-01-01",
    "1:30",
    "<<",
    "=",
    "4Gi",
]
number_like = st.text(alphabet="0123456789abcdefxXoObBE_+-.:", min_size=1, max_size=12)
integers = st.builds(
    lambda number, form: form(number),
    st.integers(-(2**70), 2**70),
    st.sampled_from([str, hex, oct, bin, "{:_}".format, "{:+}".format]),
)
scalars = st.one_of(number_like, st.sampled_from([*BOOLEANS, *OTHERS]), integers, st.floats().map(repr))


@given(text=scalars)
@example("0b-1")
@example("08")
@example("18446744073709551616")
@example("+18446744073709551615")
@against_the_oracle
def test_unquoted_scalars_mean_the_same(oracle: Oracle, text: str) -> None:
    compare(oracle, f"value: {text}\n")


@given(text=scalars.filter(lambda text: not text.startswith("---")))
@example("16777217.0")
@example("18446744073709551615")
@against_the_oracle
def test_unquoted_keys_get_the_same_names(oracle: Oracle, text: str) -> None:
    compare(oracle, f"{text}: value\n")


@given(text=scalars, tag=st.sampled_from(["!!str", "!!int", "!!float", "!!bool", "!!null", "!"]))
@against_the_oracle
def test_tagged_scalars_mean_the_same(oracle: Oracle, text: str, tag: str) -> None:
    compare(oracle, f"value: {tag} {text}\n")


@given(st.lists(st.sampled_from(["a", "b", "1", "'1'", '"a"', "yes"]), min_size=1, max_size=4), st.booleans())
@against_the_oracle
def test_duplicate_keys_are_refused_as_by_the_api_server(oracle: Oracle, keys: list[str], brackets: bool) -> None:
    if {"1", "'1'"} <= set(keys):
        return  # there, both are one field and chance decides which of them is sent; here they are duplicates
    fields = [f"{key}: 0" for key in keys]
    text = "{" + ", ".join(fields) + "}\n" if brackets else "\n".join(fields) + "\n"
    broken = isinstance(read_documents(text)[0], BrokenDocument)
    assert broken is not oracle.yaml(text).ok
    compare(oracle, text)


WORDS = [
    "a",
    "b",
    "c",
    "1",
    "yes",
    "off",
    "~",
    ".5",
    "0x1F",
    "'q'",
    '"d"',
    "é",
    "&x ",
    "*x",
    "!!str ",
    "a: ",
    "b: ",
]
STRUCTURE = [
    ": ",
    ":",
    "- ",
    "? ",
    "{",
    "}",
    "[",
    "]",
    ", ",
    "|\n",
    ">-\n",
    "# c",
    "'",
    '"',
    "\\n",
    "@",
    "%",
    "<<",
]
SPACE = [" ", "\n", "\n  ", "\n    ", "\n\t", "\t", "\r\n"]
pieces = st.lists(st.sampled_from([*WORDS, *STRUCTURE, *SPACE]), min_size=1, max_size=14).map("".join)


@given(text=pieces)
@example("&x {k: 1}\nb:\n  <<: *x\n  l: 2")
@example("[&x 1, &x 2, *x]")
@example("|\n  text")
@example(">-\n  two\n  lines\n\n")
@example("[x?]")
@example("&x [*x]")
@against_the_oracle
def test_small_documents_mean_the_same(oracle: Oracle, text: str) -> None:
    # A field before and one behind: go-yaml stops at the end of the first value and drops what follows it, which
    # is refused here; between two fields nothing can follow.
    compare(oracle, "before: " + text.replace("\n", "\n  ") + "\nbehind: 1\n")


@pytest.mark.parametrize(
    "text",
    [
        "<<: [{k: 1}, {j: 2}]\nl: 3\n",
        "base: &b {cpu: 1, memory: 2}\nlist: [*b, *b]\nown: {<<: *b, disk: 3}\n",
        "<<: 5\n",
        "a: .inf\n",
        "~: a\n",
        "? {a: b}\n: c\n",
        "a: *nowhere\n",
        "a: \x07\n",
        '{"a": 1.0, "b": [1e3, -0, 12345678901234567890], "c": {"yes": "no"}}\n',
    ],
)
def test_known_documents_mean_the_same(oracle: Oracle, text: str) -> None:
    compare(oracle, text)
