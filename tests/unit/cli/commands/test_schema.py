"""`trellis schema` as a user runs it."""

from __future__ import annotations

import json

from click.testing import CliRunner, Result

from trellis.cli.main import trellis


def run(*arguments: str) -> Result:
    return CliRunner().invoke(trellis, ["schema", *arguments])


def test_without_a_kind_all_are_in_one_schema() -> None:
    schema = json.loads(run().stdout)
    assert schema["definitions"].keys() >= {"VerticalPodAutoscaler", "Hvpa", "Buffer", "Scenario"}


def test_a_kind_is_found_by_any_of_its_names() -> None:
    for name in ("vpa", "VerticalPodAutoscaler", "verticalpodautoscalers"):
        assert json.loads(run(name).stdout)["title"] == "VerticalPodAutoscaler"
    assert json.loads(run("scenario").stdout)["title"] == "Scenario"
    assert json.loads(run("hvpa", "buf").stdout)["definitions"].keys() == {"Hvpa", "Buffer"}


def test_the_configuration_file_is_a_kind_among_them() -> None:
    own = json.loads(run("trellisconfiguration").stdout)
    assert (own["title"], own["additionalProperties"]) == ("TrellisConfiguration", False)
    updater = own["properties"]["updater"]["properties"]
    assert updater["minReplicas"]["type"] == "integer"
    assert updater["hpaConflict"]["enum"] == ["warn", "hold"]
    assert "Default: the value at the top of the file." in updater["readOnly"]["description"]
    assert "Default: false." in own["properties"]["readOnly"]["description"]
    assert "--" not in json.dumps(own)
    assert (
        not {"password", "prometheusBearerToken", "logtostderr"} & own["properties"]["recommender"]["properties"].keys()
    )
    assert "TrellisConfiguration" in json.loads(run().stdout)["definitions"]
    assert json.loads(run("vpa", "trellisconfiguration").stdout)["definitions"].keys() == {
        "VerticalPodAutoscaler",
        "TrellisConfiguration",
    }


def test_an_unknown_kind_is_refused_with_the_list() -> None:
    refused = run("pod")
    assert (refused.exit_code, 'there is no kind "pod"; choose among VerticalPodAutoscaler' in refused.stderr) == (
        2,
        True,
    )
