"""The file that Cluster Autoscaler reads by --cloud-config."""

from __future__ import annotations

from pathlib import Path

import pytest

from trellis.base.errors import InvalidConfiguration
from trellis.providers.external_grpc.configuration import ServerConfiguration, is_local, load_configuration


def load(directory: Path, text: str) -> ServerConfiguration:
    file = directory / "config.yaml"
    file.write_text(text)
    return load_configuration(str(file))


def test_upstream_s_file(tmp_path: Path) -> None:
    text = 'address: "machines:8086"\nkey: "/k"\ncert: "/c"\ncacert: "/ca"\ngrpc_timeout: 1m30s\n'
    assert load(tmp_path, text) == ServerConfiguration("machines:8086", "/c", "/k", "/ca", 90.0)


def test_the_least_that_a_file_has(tmp_path: Path) -> None:
    configuration = load(tmp_path, "address: localhost:8086\n")
    assert (configuration.timeout, configuration.uses_tls, configuration.leaves_host) == (5.0, False, False)


def test_a_ca_alone_is_tls_and_not_plaintext(tmp_path: Path) -> None:
    assert load(tmp_path, "address: a.example:1\ncacert: /ca").uses_tls


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("address: localhost", ["line 1: address must be a host and a port"]),
        ("{}", ["address must be a host and a port"]),
        ("address: a:1\ncert: /c", ["line 2: cert needs the other one of cert and key", "line 2: cert needs cacert"]),
        ("address: a:1\nkey: /c\ncacert: /ca", ["line 2: key needs the other one"]),
        ("address: a:1\ncert: /c\nkey: /k", ["line 2: cert needs cacert"]),
        ("address: a:1\ngrpc_timeout: 5", ["line 2: grpc_timeout must be text"]),
        ("address: a:1\ngrpc_timeout: fast", ["line 2: grpc_timeout a number is missing"]),
        ("address: a:1\ngrpc_timeout: 0s", ["line 2: grpc_timeout must be longer than 0s"]),
        ("adress: a:1", ["line 1: adress is not known; did you mean address?"]),
        ("- address", ["must be one map with the key address"]),
        ("", ["must be one map with the key address"]),
        ("a: [", ["line 1"]),
        ("address: a:1\n---\naddress: b:1", ["must be one map"]),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, text: str, rules: list[str]) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        load(tmp_path, text)
    for rule in rules:
        assert rule in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="cannot be read: No such file"):
        load_configuration(str(tmp_path / "none"))
    with pytest.raises(InvalidConfiguration, match="must name a file"):
        load_configuration("")


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("localhost:1", True),
        ("127.0.0.1:1", True),
        ("127.9.0.1:1", True),
        ("[::1]:1", True),
        ("unix:/run/machines", True),
        ("unix:///run/machines", True),
        ("10.0.0.1:1", False),
        (":8086", False),
        ("0.0.0.0:8086", False),
        ("[::]:8086", False),
        ("localhost.example.com:1", False),
        ("dns:///machines:1", False),
    ],
)
def test_which_addresses_stay_on_the_host(address: str, local: bool) -> None:
    assert is_local(address) is local
