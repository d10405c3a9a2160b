"""The output of the one step that runs before anything is installed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import bootstrap


def test_bootstrap_announces_a_long_step(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    result: list[str] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        result.append(capsys.readouterr().err)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(bootstrap, "find_uv", lambda: "uv")
    monkeypatch.setattr(bootstrap, "choose_go_flags", list)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["bootstrap.py"])
    with pytest.raises(SystemExit) as ended:
        bootstrap.main()
    assert ended.value.code == 0
    assert result == ["installing Trellis and its tools into .venv, which may take a minute the first time\n"]
