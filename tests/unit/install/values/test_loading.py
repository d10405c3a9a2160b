"""Values of an installation: merging, single assignments, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from trellis.base.errors import InvalidInput
from trellis.install.values.declarations import PRESETS
from trellis.install.values.loading import (
    InvalidValues,
    default_values,
    load_values,
    merge,
    parse_assignment,
    read_values,
)
from trellis.install.values.text import build_values_text


def refused(*assignments: str) -> str:
    with pytest.raises(InvalidValues) as error:
        load_values([], assignments)
    return str(error.value)


def test_the_commented_file_has_the_default_values() -> None:
    assert yaml.safe_load(build_values_text()) == default_values()


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_valid_by_itself(preset: str) -> None:
    assert load_values([], [f"preset={preset}"])["preset"] == preset


def test_maps_are_merged_lists_are_replaced_and_null_removes_a_key() -> None:
    files = [{"recommender": {"resources": {"limits": {"cpu": 1, "memory": None}}}, "tolerations": [{"key": "a"}]}]
    values = load_values(files, ["tolerations=[{key: b}]"])
    assert values["recommender"]["resources"] == {"requests": {"cpu": "50m", "memory": "500Mi"}, "limits": {"cpu": 1}}
    assert values["tolerations"] == [{"key": "b"}]
    assert merge({"a": {"b": 1}}, {"a": None}) == {}


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("replicas=1", {"replicas": 1}),
        ("image.tag=1.2.3", {"image": {"tag": "1.2.3"}}),
        ("image.tag='1.2'", {"image": {"tag": "1.2"}}),
        ("components=[recommender, updater]", {"components": ["recommender", "updater"]}),
        ("updater.args=[--a=b]", {"updater": {"args": ["--a=b"]}}),
        (r"nodeSelector.kubernetes\.io/os=linux", {"nodeSelector": {"kubernetes.io/os": "linux"}}),
        ("image.digest=", {"image": {"digest": ""}}),
        ("configuration={updater: {minReplicas: 1}}", {"configuration": {"updater": {"minReplicas": 1}}}),
    ],
)
def test_an_assignment_is_a_path_and_a_value_in_yaml(text: str, document: dict[str, Any]) -> None:
    assert parse_assignment(text) == document


@pytest.mark.parametrize("text", ["replicas", "=1", "a..b=1", "a=[", "a=1\n---\n2"])
def test_an_assignment_without_path_or_value_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="must be"):
        parse_assignment(text)


def test_a_file_of_values_is_one_map() -> None:
    assert read_values("v.yaml", "replicas: 1\n") == {"replicas": 1}
    assert read_values("v.yaml", "# nothing\n") == {}
    with pytest.raises(InvalidInput, match="must be a YAML map of values"):
        read_values("v.yaml", "- a\n")
    with pytest.raises(InvalidInput, match="must be one YAML document"):
        read_values("v.yaml", "a: 1\n---\nb: 1\n")
    with pytest.raises(InvalidInput, match=r'"v.yaml": line 1, column 4: "a: \[": a value is missing here'):
        read_values("v.yaml", "a: [\n")


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("presett=full", 'presett: Unknown field: there is no field "presett" here (did you mean "preset"?)'),
        ("preset=ful", 'preset: Unsupported value: "ful"'),
        ("replicas=two", 'replicas: Invalid value: "two": must be of type integer, not string'),
        ("replicas=null", "replicas: Required value: replicas must be given"),
        ("image.tagg=1", '(did you mean "tag"?)'),
        ("image.digest=sha256:1", "must be sha256: and 64 digits"),
        ("admission.timeoutSeconds=31", "must be less than or equal to 30"),
        ("components=[recomender]", '(did you mean "recommender"?)'),
        ("labels={app: x}", "labels.app: Invalid value"),
        ("podLabels={app.kubernetes.io/name: x}", "is a label of Trellis' own"),
        ("configuration={components: [all]}", "use the value components"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path_the_rule_and_the_nearest_name(assignment: str, words: str) -> None:
    assert words in refused(assignment)


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (
            ["watchedNamespaces=[shop]", "nodes.cloudProviders=[kwok]"],
            "the component nodes cannot be installed for some namespaces only",
        ),
        (["components=[nodes]"], "name the providers of nodes, such as [clusterapi]"),
        (["watchedNamespaces=[shop]", "components=[buffers]"], "the pods of all namespaces that run there"),
        (["preset=advisor", "components=[updater]"], "the preset advisor runs no component"),
        (["preset=read-only", "components=[admission]"], "the preset read-only has no admission controller"),
        (["processes=single", "admission.failurePolicyFail=true"], "needs a Deployment of its own"),
        (["admission.certificates=files"], "name the Secret with the files"),
        (["priorityClass.create=true"], "a name of its own"),
    ],
)
def test_a_combination_that_cannot_work_is_refused_with_what_to_do(assignments: list[str], words: str) -> None:
    assert words in refused(*assignments)


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    text = refused("replicas=-1", "image.tagg=1")
    assert text.startswith("2 values are refused:\n")
    assert "image.tagg" in text
    assert "replicas" in text
