"""Kubeconfigs: which cluster is meant, and one clear line where that cannot be said."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from trellis.base.errors import BadKubeconfig
from trellis.kube.auth.connection import ClientCertificate, Connection
from trellis.kube.auth.kubeconfig import load_kubeconfig_connection
from trellis.kube.client_factory import find_connection

Write = Callable[..., Path]


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _config(
    name: str = "lab",
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    namespace: str | None = None,
    current: bool = True,
) -> dict[str, Any]:
    context = {"cluster": name, "user": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443"} | (cluster or {})}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": context}],
    } | ({"current-context": name} if current else {})


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(config: object, name: str = "config") -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
        return file

    return written


def _load(file: Path, context: str = "") -> Connection:
    return load_kubeconfig_connection({}, file=file, context=context)


def _complaint(file: Path, context: str = "") -> str:
    with pytest.raises(BadKubeconfig) as caught:
        _load(file, context)
    message = str(caught.value)
    assert str(file) in message
    assert "\n" not in message
    return message


def test_the_current_context_selects_server_user_and_namespace(write: Write) -> None:
    connection = _load(write(_config(namespace="shop", user={"token": "t0"})))
    assert (connection.server, connection.namespace, connection.login.token) == ("https://lab:6443", "shop", "t0")
    assert connection.warnings == ()


def test_a_context_can_be_chosen_and_the_namespace_defaults_to_default(write: Write) -> None:
    config = _config("lab", namespace="shop")
    for key in ("clusters", "users", "contexts"):
        config[key] += _config("prod")[key]
    connection = _load(write(config), context="prod")
    assert (connection.server, connection.namespace) == ("https://prod:6443", "default")
    assert 'context "prod"' in connection.source


def test_inline_data_takes_precedence_over_a_file_name(write: Write) -> None:
    write("from a file", "ca.pem")
    cluster = {"certificate-authority": "ca.pem", "certificate-authority-data": _b64("from data")}
    assert _load(write(_config(cluster=cluster))).authority == b"from data"
    assert _load(write(_config(cluster={"certificate-authority": "ca.pem"}))).authority == b"from a file"


def test_paths_are_relative_to_their_kubeconfig(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cert.pem", "key.pem"):
        write(name, f"deep/pki/{name}")
    user = {"client-certificate": "pki/cert.pem", "client-key": "pki/key.pem", "tokenFile": "../token"}
    file = write(_config(user=user), "deep/config")
    monkeypatch.chdir(file.parent.parent)
    login = _load(Path("deep/config")).login
    assert login.certificate == ClientCertificate(b"cert.pem", b"key.pem")
    assert Path(login.token_file).resolve() == file.parent.parent / "token"


def test_a_relative_plug_in_is_beside_the_file_and_a_bare_name_is_in_the_path(write: Write) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "./bin/login"}
    file = write(_config(user={"exec": plugin}))
    call = _load(file).login.plugin
    assert call is not None
    assert Path(call.command) == file.parent / "bin" / "login"
    call = _load(write(_config(user={"exec": plugin | {"command": "login"}}))).login.plugin
    assert call is not None
    assert call.command == "login"


def test_a_credential_plugin_gets_cluster_info_on_request(write: Write) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login", "provideClusterInfo": True}
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "lab"}}
    cluster = {"certificate-authority-data": _b64("ca"), "extensions": [extension]}
    call = _load(write(_config(user={"exec": plugin}, cluster=cluster))).login.plugin
    assert call is not None
    assert call.cluster == {
        "server": "https://lab:6443",
        "certificate-authority-data": _b64("ca"),
        "config": {"audience": "lab"},
    }


def test_the_first_of_several_files_wins_with_its_full_entry(write: Write) -> None:
    first = write(_config(user={"token": "first"}, current=False), "first")
    second = write(_config(user={"token": "second", "as": "somebody"}, cluster={"tls-server-name": "x"}), "second")
    listed = os.pathsep.join([str(first), str(first.parent / "missing"), str(second)])
    connection = load_kubeconfig_connection({"KUBECONFIG": listed})
    assert connection.login.token == "first"  # noqa: S105 - not a secret
    assert connection.impersonation.user == ""
    assert connection.tls_server_name == ""


def test_a_context_of_one_file_may_use_the_cluster_of_another(write: Write) -> None:
    config = _config()
    contexts = write({"contexts": config.pop("contexts"), "current-context": "lab"}, "contexts")
    rest = write(config, "rest")
    connection = load_kubeconfig_connection({"KUBECONFIG": f"{contexts}{os.pathsep}{rest}"})
    assert connection.server == "https://lab:6443"


def test_the_home_directory_is_searched_last(write: Write, tmp_path: Path) -> None:
    write(_config("home"), ".kube/config")
    listed = write(_config("listed"), "listed")
    assert load_kubeconfig_connection({}, home=tmp_path).server == "https://home:6443"
    assert load_kubeconfig_connection({"KUBECONFIG": str(listed)}, home=tmp_path).server == "https://listed:6443"


def test_impersonation_becomes_headers(write: Write) -> None:
    user = {"as": "jane", "as-groups": ["dev", "ops"], "as-user-extra": {"example.org/Team": ["a"]}}
    assert _load(write(_config(user=user))).impersonation.headers() == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-example.org%2FTeam", "a"),
    )


def test_skipping_verification_is_honoured_and_warned_about(write: Write) -> None:
    connection = _load(write(_config(cluster={"insecure-skip-tls-verify": True})))
    assert connection.insecure
    (warning,) = connection.warnings
    assert "insecure-skip-tls-verify" in warning


def test_a_username_and_password_are_warned_about_and_not_used(write: Write) -> None:
    (warning,) = _load(write(_config(user={"username": "admin", "password": "x"}))).warnings
    assert "1.19" in warning


def test_no_secret_is_shown_when_a_connection_is_printed(write: Write) -> None:
    user = {"token": "s3cret", "client-certificate-data": _b64("cert"), "client-key-data": _b64("s3cret")}
    assert "s3cret" not in repr(_load(write(_config(user=user))))


def test_nulls_in_a_kubeconfig_read_as_absent(write: Write) -> None:
    config = _config() | {"users": None, "preferences": {}}
    config["contexts"] = [{"name": "lab", "context": {"cluster": "lab", "user": "", "namespace": None}}]
    assert _load(write(config)).login.token == ""


def test_a_file_that_is_missing_is_named_in_full_with_what_to_do(tmp_path: Path) -> None:
    message = _complaint(tmp_path / "far" / ("away" * 30) / "nowhere")
    assert "no such file" in message
    assert "KUBECONFIG" in message
    with pytest.raises(BadKubeconfig, match=r"\.kube/config.*no such file"):
        load_kubeconfig_connection({}, home=tmp_path)


def test_a_file_that_cannot_be_opened_is_named_with_the_reason(tmp_path: Path) -> None:
    assert "cannot be read: Is a directory" in _complaint(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("clusters: [\n  - {name: a\n", "line 2, column 3"),
        ("just words", "not a kubeconfig"),
        ("clusters: 5", "Expected `array`, got `int` at `clusters`"),
        ("clusters: [{name: a, cluster: {server: 5}}]", "`clusters[0].cluster.server`"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_refused_with_its_position(write: Write, text: str, expected: str) -> None:
    assert expected in _complaint(write(text))


def test_an_unknown_context_is_reported_with_the_nearest_name_or_with_all(write: Write) -> None:
    file = write(_config("production"))
    assert 'there is no context "producton"; did you mean "production"?' in _complaint(file, "producton")
    assert 'there are: "production"' in _complaint(file, "xyz")


def test_the_name_of_an_entry_is_never_cut(write: Write) -> None:
    name = "arn:aws:eks:eu-central-1:123456789012:cluster/" + "platform-team-production-" * 3 + "blue"
    file = write(_config(name))
    assert f'did you mean "{name}"?' in _complaint(file, name[:-1])
    assert f'there are: "{name}"' in _complaint(file, "xyz")


def test_a_context_without_its_cluster_or_user_is_reported(write: Write) -> None:
    config = _config("lab")
    config["clusters"] = []
    assert 'no cluster "lab", which context "lab" names; none is defined' in _complaint(write(config))
    config = _config("lab")
    config["users"][0]["name"] = "labs"
    assert 'no user "lab", which context "lab" names; did you mean "labs"?' in _complaint(write(config))


def test_without_a_current_context_the_choices_are_listed(write: Write) -> None:
    assert "choose one with --context: lab" in _complaint(write(_config(current=False)))
    assert "choose one with --context: none is defined" in _complaint(write(""))


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        ({"server": ""}, "has no server"),
        ({"server": "ftp://x"}, '"ftp://x" is not a URL'),
        ({"server": "https://x:port"}, "is not a URL"),
        ({"certificate-authority-data": "%%"}, "certificate-authority-data is not base64"),
        ({"certificate-authority": "gone.pem"}, "gone.pem cannot be read: No such file"),
        ({"certificate-authority-data": "YQ==", "insecure-skip-tls-verify": True}, "remove the latter"),
        ({"proxy-url": "socks5://p:1"}, "proxy-url must be the URL of an http or https proxy"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused(write: Write, cluster: dict[str, Any], expected: str) -> None:
    message = _complaint(write(_config(cluster=cluster)))
    assert expected in message
    assert 'cluster "lab"' in message


_EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login", "interactiveMode": "Never"}


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"client-certificate-data": _b64("c")}, "client-certificate without a client-key"),
        ({"client-key-data": _b64("k")}, "client-key without a client-certificate"),
        ({"client-key": "gone.pem"}, "gone.pem cannot be read"),
        ({"auth-provider": {"name": "gcp"}}, 'auth-provider "gcp" is not supported; use an exec plug-in'),
        ({"exec": _EXEC | {"apiVersion": "client.authentication.k8s.io/v1alpha1"}}, "v1alpha1"),
        ({"exec": _EXEC | {"command": ""}}, "exec has no command"),
        ({"exec": _EXEC | {"interactiveMode": ""}}, "must be one of Never, IfAvailable, Always"),
    ],
)
def test_a_user_that_cannot_be_used_is_refused(write: Write, user: dict[str, Any], expected: str) -> None:
    message = _complaint(write(_config(user=user)))
    assert expected in message
    assert 'user "lab"' in message


def test_a_duplicate_name_is_refused(write: Write) -> None:
    config = _config()
    config["users"] *= 2
    assert 'user "lab": the name occurs twice; remove one of them' in _complaint(write(config))


def test_a_server_without_scheme_is_taken_for_https_and_its_last_slash_is_dropped(write: Write) -> None:
    assert _load(write(_config(cluster={"server": "10.0.0.1:6443/"}))).server == "https://10.0.0.1:6443"
    prefixed = "https://rancher.example.org/k8s/clusters/c-1"
    assert _load(write(_config(cluster={"server": prefixed}))).server == prefixed


def _service_account(directory: Path) -> Path:
    directory.mkdir()
    for name, content in (("token", "t0"), ("ca.crt", "pem"), ("namespace", "system\n")):
        (directory / name).write_text(content)
    return directory


_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.mark.parametrize(
    ("host", "server"), [("10.96.0.1", "https://10.96.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_pod_connects_to_its_cluster_by_the_service_account(tmp_path: Path, host: str, server: str) -> None:
    account = _service_account(tmp_path / "sa")
    connection = find_connection(
        _POD | {"KUBERNETES_SERVICE_HOST": host}, service_account=account, home=tmp_path / "nobody"
    )
    assert (connection.server, connection.namespace, connection.authority) == (server, "system", b"pem")
    assert connection.login.token_file == str(account / "token")


def test_a_named_file_takes_precedence_over_the_pod_and_the_pod_over_the_home_directory(
    tmp_path: Path, write: Write
) -> None:
    account = _service_account(tmp_path / "sa")
    write(_config("home"), ".kube/config")
    named = write(_config("named"), "named")

    def server(environment: dict[str, str], **options: Any) -> str:
        return find_connection(environment, service_account=account, home=tmp_path, **options).server

    assert server(_POD) == "https://10.96.0.1:443"
    assert server({}) == "https://home:6443"
    assert server(_POD, kubeconfig=named) == "https://named:6443"
    assert server(_POD, context="home") == "https://home:6443"
    assert server(_POD | {"KUBECONFIG": str(named)}) == "https://named:6443"
