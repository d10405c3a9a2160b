"""A setting is declared once; flags, environment, file, help and reference follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from trellis.api.feature_gates import FeatureGates
from trellis.base.durations import Duration, parse_duration
from trellis.base.errors import InternalError, InvalidInput
from trellis.base.quantities import Quantity
from trellis.runtime.settings.declarations import Setting, SettingConflict, Settings, declared_settings
from trellis.runtime.settings.groups import list_groups
from trellis.runtime.settings.loader import (
    LoadedSettings,
    from_environment,
    from_file,
    from_flags,
    load_settings,
    setting_values,
)
from trellis.runtime.settings.options import CLICK_CONTEXT, click_options, reference_table


class Storage(StrEnum):
    CHECKPOINT = "checkpoint"
    PROMETHEUS = "prometheus"


class Common(Settings, frozen=True):
    """What upstream's components share."""

    title: ClassVar[str] = "Common settings"

    namespace: Annotated[
        str, Setting("Only this namespace.", why="All of them.", flag="vpa-object-namespace", variable="NAMESPACE")
    ] = ""
    ignored: Annotated[tuple[str, ...], Setting("Not these.", why="None.", flag="ignored-vpa-object-namespaces")] = ()
    profiling: Annotated[bool, Setting("Serve stacks.", why="They are private.")] = False
    verbosity: Annotated[int, Setting("How much to log.", why="As upstream.", flag="v", letter="v", maximum=10)] = 4

    def conflicts(self) -> Iterator[SettingConflict]:
        if self.namespace and self.ignored:
            yield SettingConflict("vpa-object-namespace", "cannot go with ignored-vpa-object-namespaces")


class Recommender(Settings, frozen=True):
    """One of each type, under upstream's names."""

    most_used: ClassVar[tuple[str, ...]] = ("recommender-interval", "profiling")

    common: Common = Common(verbosity=2)
    interval: Annotated[
        Duration,
        Setting("How often.", why="Metrics are as old.", flag="recommender-interval", minimum=parse_duration("1s")),
    ] = Duration.from_seconds(60)
    margin: Annotated[
        float, Setting("Kept | free.", why="It is.", flag="recommendation-margin-fraction", minimum=0.0)
    ] = 0.15
    max_cpu: Annotated[
        Quantity | None, Setting("A cap.", why="No cap.", flag="container-recommendation-max-allowed-cpu")
    ] = None
    update_worker_count: Annotated[int, Setting("Workers.", why="Enough.", unit="workers", minimum=1)] = 10
    storage: Annotated[Storage, Setting("Where to keep it.", why="No server needed.")] = Storage.CHECKPOINT
    min_tls_version: Annotated[str, Setting("Oldest TLS.", why="As upstream.", choices=("tls1_2", "tls1_3"))] = "tls1_2"
    password: Annotated[str, Setting("For Prometheus.", why="None.", variable="PROMETHEUS_PASSWORD", secret=True)] = ""
    webhook_port: Annotated[int, Setting("The port.", why="As upstream.")] = 8000
    gates: Annotated[FeatureGates, Setting("Features.", why="All on.", flag="feature-gates")] = FeatureGates()
    min_checkpoints: Annotated[int, Setting("Has no effect.", why="Upstream dropped it.", obsolete=True)] = 10


def given_flags(*arguments: str) -> dict[str, Any]:
    """What click makes of a command line."""
    flags: dict[str, Any] = {}
    command = click.Command(
        "test",
        params=[*click_options(Recommender)],
        context_settings=CLICK_CONTEXT,
        callback=lambda **parameters: flags.update(parameters),
    )
    result = CliRunner().invoke(command, arguments)
    if result.exit_code:
        raise click.UsageError(result.output)
    return flags


def loaded(
    *arguments: str, environment: Mapping[str, str] | None = None, file: Path | None = None
) -> LoadedSettings[Recommender]:
    return load_settings(
        Recommender,
        from_flags(Recommender, given_flags(*arguments)),
        from_environment(Recommender, environment or {}),
        from_file(Recommender, file) if file else {},
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


def test_nothing_given_means_the_defaults_of_the_struct_and_its_groups() -> None:
    settings = loaded()
    assert settings.settings == Recommender()
    assert settings.settings.common.verbosity == 2
    assert settings.origins == {}


def test_flags_take_precedence_over_the_environment_and_that_over_the_file(file: Path) -> None:
    file.write_text("recommender-interval: 3m\nupdate-worker-count: 3\nv: 3\n")
    environment = {"TRELLIS_RECOMMENDER_INTERVAL": "2m", "TRELLIS_UPDATE_WORKER_COUNT": "2"}
    settings = loaded("--recommender-interval=1m0s", environment=environment, file=file)
    assert str(settings.settings.interval) == "1m0s"
    assert settings.settings.update_worker_count == 2
    assert settings.settings.common.verbosity == 3
    assert settings.origins == {
        "v": f"v in {file}, line 3",
        "recommender-interval": "flag --recommender-interval",
        "update-worker-count": "environment variable TRELLIS_UPDATE_WORKER_COUNT",
    }


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["--profiling"], True),
        (["--profiling=true"], True),
        (["--profiling=1"], True),
        (["--profiling=T"], True),
        (["--profiling=false"], False),
        (["--profiling=F"], False),
        (["--profiling", "--v=3"], True),
        (["--profiling", "--profiling=false"], False),
        (["--profiling", "--no-profiling"], False),
        (["--no-profiling", "--profiling"], True),
        (["--no-profiling", "--profiling=true"], True),
        (["--no_profiling"], False),
        ([], False),
    ],
)
def test_a_switch_is_spelled_as_go_spells_it_or_with_no_in_front(arguments: list[str], value: bool) -> None:
    assert loaded(*arguments).settings.common.profiling is value


def test_a_switch_with_no_in_front_takes_no_value() -> None:
    with pytest.raises(click.UsageError, match="'--no-profiling' does not take a value"):
        given_flags("--no-profiling=true")


def test_only_switches_have_a_flag_with_no_in_front() -> None:
    with pytest.raises(click.UsageError, match="No such option '--no-storage'"):
        given_flags("--no-storage")


@pytest.mark.parametrize("arguments", [["--v=7"], ["-v=7"], ["-v", "7"], ["-v7"], ["--v", "7"]])
def test_verbosity_is_spelled_as_klog_spells_it(arguments: list[str]) -> None:
    assert loaded(*arguments).settings.common.verbosity == 7


def test_underscores_stand_for_dashes_in_flags() -> None:
    assert loaded("--update_worker_count=3").settings.update_worker_count == 3


def test_a_list_is_given_with_commas_or_several_times() -> None:
    flags = ["--ignored-vpa-object-namespaces=a,b", "--ignored-vpa-object-namespaces", "c"]
    assert loaded(*flags).settings.common.ignored == ("a", "b", "c")


def test_feature_gates_given_several_times_add_up() -> None:
    flags = ["--feature-gates=InPlace=false", "--feature-gates=PerVPAConfig=false"]
    assert loaded(*flags).settings.gates == FeatureGates(in_place=False, per_vpa_config=False)


def test_quantities_choices_and_numbers_are_read() -> None:
    settings = loaded(
        "--container-recommendation-max-allowed-cpu=1500m",
        "--storage=prometheus",
        "--min-tls-version=tls1_3",
        "--recommendation-margin-fraction=.2",
    ).settings
    assert settings.max_cpu == Quantity.from_milli(1500)
    assert settings.storage is Storage.PROMETHEUS
    assert settings.min_tls_version == "tls1_3"
    assert settings.margin == 0.2


def test_empty_text_leaves_open_what_may_be_open() -> None:
    assert loaded("--container-recommendation-max-allowed-cpu=").settings.max_cpu is None


def test_a_file_may_use_the_types_of_yaml(file: Path) -> None:
    file.write_text(
        "profiling: true\nrecommendation-margin-fraction: 1\ncontainer-recommendation-max-allowed-cpu: 2\n"
        "ignored-vpa-object-namespaces: [a, b]\nfeature-gates: {InPlace: false}\n"
    )
    settings = loaded(file=file).settings
    assert settings.common.profiling is True
    assert settings.margin == 1.0
    assert settings.max_cpu == Quantity.from_units(2)
    assert settings.common.ignored == ("a", "b")
    assert settings.gates == FeatureGates(in_place=False)


def test_another_variable_is_read_if_ours_is_not_set() -> None:
    assert loaded(environment={"NAMESPACE": "x"}).settings.common.namespace == "x"
    both = {"NAMESPACE": "x", "TRELLIS_VPA_OBJECT_NAMESPACE": "y"}
    assert loaded(environment=both).settings.common.namespace == "y"


def test_what_kubernetes_says_of_a_service_is_no_port() -> None:
    assert loaded(environment={"TRELLIS_WEBHOOK_PORT": "tcp://10.0.0.7:443"}).settings.webhook_port == 8000
    assert loaded(environment={"TRELLIS_WEBHOOK_PORT": "8443"}).settings.webhook_port == 8443


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--recommender-interval=1x", '"1x": flag --recommender-interval: "x" is not a unit'),
        ("--recommender-interval=10ms", '"10ms": flag --recommender-interval: must be at least 1s'),
        ("--recommender-interval=60", '"60": flag --recommender-interval: the unit is missing'),
        ("--v=11", '"11": flag --v: must be at most 10'),
        ("--v=loud", '"loud": flag --v: must be a whole number'),
        ("--profiling=yes", '"yes": flag --profiling: must be true or false'),
        ("--storage=promethus", "must be one of checkpoint, prometheus (did you mean prometheus?)"),
        ("--recommendation-margin-fraction=nan", "must be a number"),
        ("--container-recommendation-max-allowed-cpu=two", '"two": flag --container-recommendation-max-allowed-cpu'),
        (
            "--feature-gates=Inplace=true",
            '"Inplace=true": flag --feature-gates: "Inplace" is not a feature gate (did you',
        ),
    ],
)
def test_a_refusal_names_the_value_the_flag_and_the_rule(argument: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        loaded(argument)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_refusal_names_the_variable_and_the_line(file: Path) -> None:
    with pytest.raises(InvalidInput, match='"x": environment variable TRELLIS_V: must be a whole number'):
        loaded(environment={"TRELLIS_V": "x"})
    file.write_text("# a comment\nv: high\n")
    with pytest.raises(InvalidInput, match=f'"high": v in {file}, line 2: must be a whole number'):
        loaded(file=file)


def test_all_invalid_settings_are_reported_together() -> None:
    with pytest.raises(InvalidInput) as refused:
        loaded("--v=11", "--profiling=maybe")
    assert "flag --v" in str(refused.value)
    assert '"maybe": flag --profiling: must be true or false' in str(refused.value)


def test_settings_that_exclude_one_another_are_refused() -> None:
    with pytest.raises(InvalidInput, match='"x": environment variable NAMESPACE: cannot go with ignored'):
        loaded("--ignored-vpa-object-namespaces=y", environment={"NAMESPACE": "x"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recomender-interval: 1m\n", "line 1: is not a setting .did you mean recommender-interval"),
        ("- a\n", "a settings file must be one map"),
        ("v: 1\n---\nv: 2\n", "a settings file must be one map"),
        ("v: 1\nv: 2\n", "line 2: key is written twice"),
        ("update-worker-count: 1.5\n", "must be a whole number"),
        ("vpa-object-namespace: 7\n", "must be text; put it in quotes"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_place(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        loaded(file=file)


def test_an_empty_file_sets_nothing(file: Path) -> None:
    file.write_text("# nothing\n")
    assert loaded(file=file).settings == Recommender()


def test_a_file_that_is_missing_is_named(file: Path) -> None:
    with pytest.raises(InvalidInput, match=f"settings.yaml.*{file} cannot be read: No such file"):
        loaded(file=file)


def test_a_secret_is_shown_nowhere() -> None:
    settings = loaded(environment={"PROMETHEUS_PASSWORD": "hunter2"}).settings
    assert settings.password == "hunter2"  # noqa: S105
    assert setting_values(settings)["password"] == "(hidden)"  # noqa: S105
    assert setting_values(Recommender())["password"] == ""


def test_a_secret_that_is_refused_is_not_shown_either(file: Path) -> None:
    file.write_text("password: 1234567\n")
    with pytest.raises(InvalidInput, match=r"hidden.*password in .*line 1: must be text; put it in quotes") as refused:
        loaded(file=file)
    assert "1234567" not in str(refused.value)


def test_values_are_shown_as_flags_would_have_them() -> None:
    shown = setting_values(loaded("--profiling", "--ignored-vpa-object-namespaces=a,b").settings)
    assert shown["profiling"] == "true"
    assert shown["ignored-vpa-object-namespaces"] == "a,b"
    assert shown["recommender-interval"] == "1m0s"
    assert shown["feature-gates"] == "CPUStartupBoost=true,InPlace=true,PerVPAConfig=true"
    assert shown["container-recommendation-max-allowed-cpu"] == ""


@given(
    interval=st.integers(1, 10**7).map(Duration.from_seconds),
    margin=st.floats(0, 100).map(lambda number: float(f"{number:g}")),
    ignored=st.lists(st.sampled_from(["a", "b-c", "kube-system"])).map(tuple),
    gates=st.builds(FeatureGates),
    profiling=st.booleans(),
)
def test_settings_survive_being_written_as_flags(
    interval: Duration, margin: float, ignored: tuple[str, ...], gates: FeatureGates, profiling: bool
) -> None:
    settings = Recommender(
        common=Common(ignored=ignored, profiling=profiling), interval=interval, margin=margin, gates=gates
    )
    flags = {setting.parameter: setting_values(settings)[setting.name] for setting in declared_settings(Recommender)}
    assert load_settings(Recommender, from_flags(Recommender, flags)).settings == settings


def test_groups_show_the_most_used_settings_first_and_those_without_effect_last() -> None:
    groups = {group.title: [setting.name for setting in group.settings] for group in list_groups(Recommender)}
    assert list(groups) == ["Most used", "Common settings", "Settings", "Compatibility with upstream"]
    assert groups["Most used"] == ["recommender-interval", "profiling"]
    assert groups["Common settings"] == ["vpa-object-namespace", "ignored-vpa-object-namespaces", "v"]
    assert groups["Compatibility with upstream"] == ["min-checkpoints"]
    assert sorted(name for names in groups.values() for name in names) == sorted(
        setting.name for setting in declared_settings(Recommender)
    )


def test_a_most_used_setting_that_does_not_exist_is_a_bug() -> None:
    class Wrong(Settings, frozen=True):
        most_used: ClassVar[tuple[str, ...]] = ("profilling",)
        common: Common = Common()

    with pytest.raises(InternalError, match="Wrong does not declare profilling"):
        list_groups(Wrong)


def test_the_reference_has_one_row_for_each_setting_with_meaning_and_reason() -> None:
    table = reference_table(declared_settings(Recommender))
    assert "| `--recommender-interval` | duration, at least 1s | `1m0s` | How often. Metrics are as old. |" in table
    assert "| `--update-worker-count` | whole number, workers, at least 1 | `10` | Workers. Enough. |" in table
    assert "| `--container-recommendation-max-allowed-cpu` | quantity | none | A cap. No cap. |" in table
    assert "| `--profiling` | true or false | `false` | Serve stacks. They are private. |" in table
    assert "Kept \\| free." in table


def test_a_setting_declared_twice_is_a_bug() -> None:
    class Twice(Settings, frozen=True):
        common: Common = Common()
        profiling: Annotated[bool, Setting("Again.", why="No.")] = False

    with pytest.raises(InternalError, match="twice: profiling"):
        declared_settings(Twice)


def test_a_setting_without_a_meaning_is_a_bug() -> None:
    class Bare(Settings, frozen=True):
        interval: int = 3

    with pytest.raises(InternalError, match=r"Bare\.interval"):
        declared_settings(Bare)
