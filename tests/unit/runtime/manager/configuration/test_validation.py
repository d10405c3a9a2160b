"""Problems of a configuration file: field, value, rule, line, and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from trellis.base.errors import InvalidConfiguration
from trellis.cli.process.catalog import import_all_settings
from trellis.runtime.manager.configuration.file import read_configuration
from trellis.runtime.manager.layers import SettingTypes, load_process

TYPES = import_all_settings()
HEAD = "apiVersion: config.trellis.x-k8s.io/v1alpha1\nkind: TrellisConfiguration\n"
FILE = Path("/etc/trellis/config.yaml")


def problems(text: str, types: SettingTypes = TYPES, head: str = HEAD) -> tuple[str, ...]:
    with pytest.raises(InvalidConfiguration) as refused:
        read_configuration(types, FILE, (head + text).encode())
    assert str(refused.value).startswith('"/etc/trellis/config.yaml": ')
    return refused.value.problems


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("readOnly: 'yes'", 'readOnly: Invalid value: "yes": must be of type boolean, not string'),
        ("readOnli: true", 'readOnli: Unknown field: there is no field "readOnli" here (did you mean "readOnly"?)'),
        ("components: drop-in", "must be of type array, not string; write [drop-in]"),
        ("components: [nodez]", 'components: Invalid value: ["nodez"]: nodez is not a component (did you mean nodes?)'),
        ("leaderElectRetryPeriod: 2", "a duration has a unit: write 2s for seconds"),
        ("leaderElectRetryPeriod: -2s", "must be a duration such as 10s, 2m or 1h30m, not negative"),
        ("admission: {webhookPort: 443}", "must be of type string, not integer; put it in quotes"),
        ("admission: {maxAllowedCpuBoost: 1.5}", 'must be text or a whole number: write "1.5", in quotes'),
        ("admission: {webhookTimeoutSeconds: 60}", "must be less than or equal to 30"),
        ("admission: {certificates: fils}", 'supported values: "auto", "files", "secret" (did you mean "files"?)'),
        ("featureGates: {InPlac: true}", 'featureGates.InPlac: Unknown field: there is no field "InPlac" here'),
        ("updater: []", "updater: Invalid value: []: must be of type object, not array"),
        ("updater: {minReplica: 1}", '(did you mean "minReplicas"?)'),
        ("updater: {v: 3}", "v is set for all components of a process: write it at the top of the file"),
        ("minReplicas: 1", "minReplicas is a setting of a component: write it in the object updater"),
        ("hvpa: {hvpaInterval: 0s}", 'hvpa.hvpaInterval: Invalid value: "0s": must be longer than 0s'),
        ("address: nowhere", 'address: Invalid value: "nowhere": must be an address to listen on'),
        ("updater: {logtostderr: true}", 'updater.logtostderr: Unknown field: there is no field "logtostderr" here'),
    ],
)
def test_a_wrong_value_is_refused_with_field_line_and_rule(text: str, problem: str) -> None:
    [found] = problems(text)
    assert found.startswith("line 3: ")
    assert problem in found


def test_all_problems_are_reported_at_once_in_the_order_of_lines() -> None:
    text = "readOnly: 1\nupdater:\n  minReplicas: x\n  v: 3\ncomponents: [nodez]\nbufers: {}\n"
    found = problems(text)
    assert [problem.partition(":")[0] for problem in found] == ["line 3", "line 5", "line 6", "line 7", "line 8"]


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("recommender: {password: s3cret}", "recommender.passwordFile"),
        ("recommender: {prometheusBearerToken: s3cret}", "recommender.prometheusBearerTokenFile"),
        ("recommender: {prometheusHeaders: [X-Token=s3cret]}", "recommender.prometheusHeadersFile"),
        ("password: s3cret", "recommender.passwordFile"),
    ],
)
def test_a_secret_has_no_field_and_its_value_is_not_shown(text: str, file: str) -> None:
    [found] = problems(text)
    assert f"set the path of that file in {file}" in found
    assert "s3cret" not in found


def test_an_address_with_a_password_is_refused_without_showing_it() -> None:
    [found] = problems("recommender: {prometheusAddress: 'https://jane:s3cret@prometheus'}")
    assert found.startswith("line 3: recommender.prometheusAddress: Forbidden: it contains what looks like a password")
    assert "s3cret" not in found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("leaderElectLeaseDuration: 5s", 'line 3: leaderElectLeaseDuration: Invalid value: "5s": must be longer than'),
        (
            "hvpa: {}\nupdater:\n  leaderElectLeaseDuration: 5s",
            'line 5: updater.leaderElectLeaseDuration: Invalid value: "5s": must be longer than '
            "leaderElectRenewDeadline",
        ),
        (
            "vpaObjectNamespace: [a]\nignoredVpaObjectNamespaces: [b]",
            "line 4: ignoredVpaObjectNamespaces: Invalid value",
        ),
        ("recommender: {historyLength: 1h, historyResolution: 2h}", "must not be shorter than historyResolution"),
    ],
)
def test_rules_over_several_settings_are_checked_in_the_words_of_the_file(text: str, problem: str) -> None:
    [found] = problems(text)
    assert problem in found
    assert "--" not in found


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ("", "is not a TrellisConfiguration: begin it with `apiVersion: config.trellis.x-k8s.io/v1alpha1` and"),
        ("min-replicas: 1\n", "is not a TrellisConfiguration: begin it with"),
        ("apiVersion: v1\nkind: ConfigMap\n", "is not a TrellisConfiguration: begin it with"),
        ("apiVersion: config.trellis.x-k8s.io/v1\nkind: TrellisConfiguration\n", "there is no version v1 of"),
        ("kind: TrellisConfiguration\n", "needs apiVersion: config.trellis.x-k8s.io/v1alpha1"),
        (f"{HEAD}---\n{HEAD}", "must be one document, and has several"),
        ('a: "', "this bracket or quote is never closed"),
    ],
)
def test_another_file_is_refused_with_what_a_configuration_begins_with(head: str, problem: str) -> None:
    assert problem in " ".join(problems("", head=head))


def test_an_object_of_a_component_that_does_not_run_is_a_warning() -> None:
    file = read_configuration(TYPES, FILE, f"{HEAD}components: [drop-in]\nhvpa: {{hvpaInterval: 5s}}\n".encode())
    [warning] = file.warnings
    assert warning.startswith("line 4: hvpa: has no effect in trellis run: hvpa is not among components (recommender,")


def test_a_component_of_its_own_reads_shared_settings_and_its_object_alone() -> None:
    types = {"updater": TYPES["updater"]}
    text = f"{HEAD}readOnly: true\nupdater: {{minReplicas: 1}}\nhvpa: {{hvpaInterval: nonsense}}\n"
    layer = read_configuration(types, FILE, text.encode()).layer
    assert (layer.shared["read-only"].value, layer.components["updater"]["min-replicas"].value) == (True, 1)
    assert [*layer.components] == ["updater"]
    assert "updater.minReplicas" in problems("updater: {minReplicas: no}", types)[0]


def test_values_have_their_place_in_the_file_as_origin_and_null_is_no_value() -> None:
    text = f"{HEAD}readOnly: null\nkubeApiQps: 5\nupdater:\n  minReplicas: 3\nhvpa: null\n"
    loaded = load_process(TYPES, read_configuration(TYPES, FILE, text.encode()).layer)
    assert loaded.process.origins == {"kube-api-qps": f"kubeApiQps in {FILE}, line 4"}
    assert loaded.components["updater"].origins["min-replicas"] == f"updater.minReplicas in {FILE}, line 6"
    assert loaded.components["hvpa"].settings.access.kube_api_qps == 5
