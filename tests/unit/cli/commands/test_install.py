"""`trellis install`: manifests from options and files of values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from trellis.cli.commands.install import PRESETS
from trellis.cli.main import trellis
from trellis.install.values.declarations import PRESETS as DECLARED
from trellis.install.values.loading import InvalidValues


def install(*arguments: str, text: str = "") -> Result:
    # Not the command alone, which would keep a help option of its own.
    return CliRunner().invoke(trellis, ["install", *arguments], input=text, catch_exceptions=False)


def manifests(*arguments: str, text: str = "") -> list[dict[str, Any]]:
    result = install(*arguments, text=text)
    assert result.exit_code == 0, result.output
    return list(yaml.load_all(result.output, Loader=yaml.CSafeLoader))


def deployments(*arguments: str, text: str = "") -> dict[str, Any]:
    return {it["metadata"]["name"]: it for it in manifests(*arguments, text=text) if it["kind"] == "Deployment"}


def images(*arguments: str) -> set[str]:
    specs = [it["spec"]["template"]["spec"] for it in deployments(*arguments).values()]
    return {container["image"] for spec in specs for container in spec["containers"]}


def test_the_presets_of_the_option_are_those_of_the_values() -> None:
    assert set(PRESETS) == set(DECLARED)


def test_the_namespace_and_the_definitions_come_first() -> None:
    kinds = [it["kind"] for it in manifests()]
    assert kinds[:5] == ["Namespace", *["CustomResourceDefinition"] * 4]


@pytest.mark.parametrize(
    ("arguments", "namespace"),
    [
        ((), "trellis-system"),
        (("--preset", "drop-in"), "kube-system"),
        (("--set", "preset=drop-in"), "kube-system"),
        (("-n", "ops"), "ops"),
    ],
)
def test_the_namespace_is_that_of_the_option_or_of_the_preset(arguments: tuple[str, ...], namespace: str) -> None:
    assert {it["metadata"]["namespace"] for it in deployments(*arguments).values()} == {namespace}


@pytest.mark.parametrize(
    ("reference", "image"),
    [
        ("reg.example:5000/a/trellis", "reg.example:5000/a/trellis:0.1.0"),
        ("reg.example:5000/a/trellis:1.2", "reg.example:5000/a/trellis:1.2"),
        (f"trellis:1@sha256:{'a' * 64}", f"trellis@sha256:{'a' * 64}"),
    ],
)
def test_an_image_has_a_repository_and_optionally_a_tag_and_a_digest(reference: str, image: str) -> None:
    assert images("--image", reference) == {image}


def test_later_files_win_and_single_values_win_over_files(tmp_path: Path) -> None:
    first, second = tmp_path / "1.yaml", tmp_path / "2.yaml"
    first.write_text("replicas: 3\nimage: {tag: a}\n")
    second.write_text("replicas: 4\n")
    files = ("-f", str(first), "-f", str(second))
    assert {it["spec"]["replicas"] for it in deployments(*files).values()} == {4}
    assert {it["spec"]["replicas"] for it in deployments(*files, "--set", "replicas=5").values()} == {5}
    assert images(*files) == {"trellis:a"}


def test_values_come_from_standard_input_too() -> None:
    assert {it["spec"]["replicas"] for it in deployments("-f", "-", text="replicas: 1\n").values()} == {1}


def test_json_is_one_list() -> None:
    document = json.loads(install("-o", "json").output)
    assert document["kind"] == "List"
    assert document["items"] == manifests()


def test_yaml_has_the_reason_for_each_right() -> None:
    assert "# Evictions, within disruption budgets. " in install().output


def test_what_to_delete_begins_with_the_webhook_and_has_no_definitions() -> None:
    kinds = [it["kind"] for it in manifests("--to-delete")]
    assert kinds[0] == "MutatingWebhookConfiguration"
    assert not {"CustomResourceDefinition", "Namespace"} & set(kinds)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "replica=1"), '(did you mean "replicas"?)'),
        (("--image", "registry/trellis:0.1.O x"), "image.tag: Invalid value"),
        (("--set", "image.repository=registry:5000/trellis:1"), "without a tag"),
        (("--set", "configuration={updatr: {}}"), 'configuration.updatr: Unknown field'),
        (("--set", "configuration={updater: {evictionTolerance: 50}}"), "configuration.updater.evictionTolerance"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_with_their_path(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(InvalidValues) as refused:
        install(*arguments)
    assert words in str(refused.value)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    for file, words in ((tmp_path / "absent.yaml", "there is no such file"), (tmp_path, "is a directory")):
        result = install("-f", str(file))
        assert (result.exit_code, words in result.stderr) == (2, True)


def test_a_namespace_that_cannot_exist_is_refused() -> None:
    with pytest.raises(Exception, match="--namespace must consist of"):
        install("-n", "Ops")
