"""Tokens from files and from programs: fresh when they must be, and not asked for more often than that."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.virtual_time import run
from trellis.base.errors import Unauthorized
from trellis.kube.auth.connection import ClientCertificate, PluginCall
from trellis.kube.auth.credentials import Identity, TokenFile
from trellis.kube.auth.exec_plugin import ExecPlugin

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
V1 = "client.authentication.k8s.io/v1"


def _replace(file: Path, token: str) -> None:
    """As the kubelet does: a new file takes the place of the old."""
    fresh = file.with_name("fresh")
    fresh.write_text(token)
    fresh.rename(file)


def test_a_token_is_reread_when_its_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    tokens = TokenFile(file)

    async def main() -> list[str]:
        first = await tokens.identity()
        _replace(file, "two")
        return [first.token, (await tokens.identity()).token]

    assert run(main()) == ["one", "two"]


def test_a_token_that_changes_with_unchanged_file_status_is_reread_within_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    marks = file.stat()
    tokens = TokenFile(file)

    async def main() -> list[str]:
        values = [(await tokens.identity()).token]
        file.write_text("two")
        os.utime(file, ns=(marks.st_atime_ns, marks.st_mtime_ns))
        for _ in range(3):
            values.append((await tokens.identity()).token)
            await asyncio.sleep(30)
        return values

    assert run(main()) == ["one", "one", "one", "two"]


def test_a_token_whose_file_vanishes_serves_on(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    tokens = TokenFile(file)

    async def main() -> list[str]:
        first = await tokens.identity()
        file.unlink()
        return [first.token, (await tokens.identity()).token]

    assert run(main()) == ["one", "one"]


@pytest.mark.parametrize("content", [None, "", "\n", "t\xf6ken"])
def test_an_empty_token_file_is_unauthorized(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(Unauthorized, match="contains no token"):
        run(TokenFile(file).identity())


def test_a_refused_token_is_retried_only_if_the_file_has_another(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    tokens = TokenFile(file)

    async def main() -> list[bool]:
        refused = await tokens.identity()
        same = await tokens.renew(refused)
        _replace(file, "two")
        return [same, await tokens.renew(refused)]

    assert run(main()) == [False, True]


# --- plug-ins ---

PLUGIN = """#!{python}
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
runs = here / "runs"
runs.write_text(str(int(runs.read_text()) + 1 if runs.exists() else 1))
(here / "info.json").write_text(os.environ["KUBERNETES_EXEC_INFO"])
(here / "seen.json").write_text(json.dumps([sys.argv[1:], os.environ.get("AUDIENCE")]))
status = json.loads((here / "status.json").read_text())
status["token"] = status.get("token", "").replace("N", runs.read_text())
print(json.dumps({{"apiVersion": "{version}", "kind": "ExecCredential", "status": status}}))
"""


class _Plugin:
    """A program that counts how often it runs and prints the status it was told to."""

    def __init__(self, directory: Path, version: str = V1, text: str = PLUGIN, **status: Any) -> None:
        self.directory = directory
        self.clock = NOW
        (directory / "status.json").write_bytes(msgspec.json.encode({"token": "token-N"} | status))
        program = directory / "login"
        program.write_text(text.format(python=sys.executable, version=version))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.call = PluginCall(V1, str(program), ("--quiet",), (("AUDIENCE", "lab"),), interactive="Never")

    def credentials(self, **changes: Any) -> ExecPlugin:
        return ExecPlugin(msgspec.structs.replace(self.call, **changes), lambda: self.clock)

    @property
    def runs(self) -> int:
        return int((self.directory / "runs").read_text())

    def saw(self, name: str) -> Any:
        return msgspec.json.decode((self.directory / name).read_bytes())


def _failure(plugin: _Plugin, **changes: Any) -> str:
    with pytest.raises(Unauthorized) as caught:
        asyncio.run(plugin.credentials(**changes).identity())
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_plugin_runs_once_for_concurrent_requests_with_its_environment(tmp_path: Path) -> None:
    plugin = _Plugin(tmp_path)

    async def main() -> list[Identity]:
        credentials = plugin.credentials(cluster={"server": "https://lab"})
        return await asyncio.gather(*(credentials.identity() for _ in range(5)))

    assert {identity.token for identity in asyncio.run(main())} == {"token-1"}
    assert plugin.runs == 1
    assert plugin.saw("seen.json") == [["--quiet"], "lab"]
    assert plugin.saw("info.json") == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://lab"}},
    }


def test_the_older_version_is_spoken_too(tmp_path: Path) -> None:
    plugin = _Plugin(tmp_path, version="client.authentication.k8s.io/v1beta1")
    credentials = plugin.credentials(api_version="client.authentication.k8s.io/v1beta1")
    assert asyncio.run(credentials.identity()).token == "token-1"  # noqa: S105 - not a secret


def test_credentials_of_a_plugin_are_cached_until_they_expire(tmp_path: Path) -> None:
    plugin = _Plugin(tmp_path, expirationTimestamp="2026-05-01T13:00:00Z")

    async def main() -> list[str]:
        credentials = plugin.credentials()
        values = []
        for minutes in (0, 59, 60, 61):
            plugin.clock = NOW + timedelta(minutes=minutes)
            values.append((await credentials.identity()).token)
        return values

    assert asyncio.run(main()) == ["token-1", "token-1", "token-2", "token-3"]


def test_after_refusals_a_credential_plugin_runs_once_for_all_callers(tmp_path: Path) -> None:
    plugin = _Plugin(tmp_path)

    async def main() -> str:
        credentials = plugin.credentials()
        refused = await credentials.identity()
        for _ in range(3):
            assert await credentials.renew(refused)
            await credentials.identity()
        return (await credentials.identity()).token

    assert asyncio.run(main()) == "token-2"


def test_a_certificate_may_come_with_the_token_or_instead_of_it(tmp_path: Path) -> None:
    plugin = _Plugin(tmp_path, token="", clientCertificateData="cert", clientKeyData="key")
    identity = asyncio.run(plugin.credentials().identity())
    assert identity.certificate == ClientCertificate(b"cert", b"key")


Change = Callable[[Path], _Plugin]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda at: _Plugin(at, text="#!/bin/sh\necho no such profile >&2\nexit 3\n"), "ended with 3: no such profile"),
        (lambda at: _Plugin(at, text="#!/bin/sh\necho hello\n"), "did not print an ExecCredential in JSON"),
        (lambda at: _Plugin(at, version="v9"), "printed ExecCredential of v9, not an ExecCredential of"),
        (lambda at: _Plugin(at, token=""), "neither a token nor a certificate"),
        (lambda at: _Plugin(at, clientKeyData="key"), "the key alone"),
    ],
    ids=["fails", "prints something", "wrong version", "prints nothing", "half a certificate"],
)
def test_a_plugin_without_credentials_is_reported_with_the_reason(tmp_path: Path, make: Change, expected: str) -> None:
    deep = tmp_path / ("a-path-is-never-cut" * 8)
    deep.mkdir()
    message = _failure(make(deep))
    assert expected in message
    assert str(deep / "login") in message


def test_a_missing_plugin_is_reported_with_its_install_hint(tmp_path: Path) -> None:
    message = _failure(_Plugin(tmp_path), command="no-such-login", install_hint="run:\n  brew install login")
    assert '"no-such-login" cannot be run: No such file or directory; run: brew install login' in message


def test_an_interactive_plugin_is_not_run_without_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert "needs a terminal" in _failure(_Plugin(tmp_path), interactive="Always")
    assert not (tmp_path / "runs").exists()


def test_a_program_that_never_ends_is_ended(tmp_path: Path) -> None:
    plugin = _Plugin(tmp_path, text="#!/bin/sh\necho $$ > $(dirname $0)/pid\nexec tail -f /dev/null\n")
    credentials = ExecPlugin(plugin.call, lambda: NOW, timeout_seconds=0.5)
    with pytest.raises(Unauthorized, match=r"has not ended after 0\.5 s"):
        asyncio.run(credentials.identity())
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
