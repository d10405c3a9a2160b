"""Who may call the server: clients with a certificate, or processes of the same host."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from trellis.base.errors import InvalidInput
from trellis.cli.main import main
from trellis.controllers.nodes.provider_server.process import provider_server_main
from trellis.controllers.nodes.provider_server.settings import GrpcServerSettings, NodeProviderServerSettings

FILES = {"tls_cert_file": "c", "tls_private_key": "k", "client_ca_file": "ca"}


def rules(**fields: Any) -> list[str]:
    return [f"{conflict.setting}: {conflict.rule}" for conflict in GrpcServerSettings(**fields).conflicts()]


@pytest.mark.parametrize("address", ["127.0.0.1:8086", "localhost:8086", "[::1]:8086"])
def test_plaintext_is_served_on_loopback(address: str) -> None:
    assert rules(grpc_address=address) == []


@pytest.mark.parametrize("address", [":8086", "0.0.0.0:8086", "10.0.0.1:8086", "[::]:8086"])
def test_plaintext_is_refused_elsewhere(address: str) -> None:
    [rule] = rules(grpc_address=address)
    assert rule.startswith(f'grpc-address: "{address}" is not a loopback address: without --tls-cert-file')
    assert rules(grpc_address=address, **FILES) == []


@pytest.mark.parametrize("missing", FILES)
def test_certificates_of_both_sides_go_together(missing: str) -> None:
    fields = {name: path for name, path in FILES.items() if name != missing}
    [rule] = rules(**fields)
    assert rule.startswith(f"{missing.replace('_', '-')}: must be set, because clients are verified")


def test_names_of_clients_need_certificates() -> None:
    assert rules(client_names=("a",)) == ["client-names: needs --client-ca-file: without it clients have no names"]
    assert rules(client_names=("a",), **FILES) == []


@pytest.mark.parametrize(
    ("flag", "rule"),
    [
        ("--grpc-address=:8086", "is not a loopback address"),
        ("--grpc-address=8086", "must be an address to listen on"),
        ("--cloud-provider=externalgrpc", "externalgrpc is the client of this server"),
        ("--max-concurrent-calls=0", "must be at least 1"),
        ("--tls-cert-file=a", "go together"),
    ],
)
def test_a_flag_without_sense_is_refused(flag: str, rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["node-provider-server", flag])
    assert ended.value.code == 2
    assert rule in " ".join(capsys.readouterr().err.split())


def test_the_command_has_no_file_of_components(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["node-provider-server", "--config=x.yaml"])
    assert "no such option" in capsys.readouterr().err.lower()


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def fail(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "grpc":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(InvalidInput, match=r"needs gRPC: pip install 'trellis-autoscaler\[grpc\]'"):
        provider_server_main(NodeProviderServerSettings())
