"""Runs the real Helm on our chart."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from testbed.programs.versions import KUBERNETES

Manifest = dict[str, Any]

ROOT: Final = Path(__file__).resolve().parents[3]
CHART: Final = ROOT / "deploy" / "chart" / "trellis"
# Longer than anything Helm waits for here, and shorter than a test may take.
_SECONDS: Final = 300


class Run(msgspec.Struct, frozen=True):
    """What a program printed, and its exit status."""

    status: int
    output: str
    errors: str

    def check(self) -> str:
        """The output; an exit status other than 0 fails the test."""
        assert self.status == 0, f"exit status {self.status}\n{self.errors}\n{self.output}"
        return self.output

    def check_all(self) -> str:
        """Output and messages; an exit status other than 0 fails the test."""
        return self.check() + self.errors


def run(command: Sequence[str | Path], text: str = "", environment: Mapping[str, str] | None = None) -> Run:
    """Run a program to its end."""
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
        env=os.environ | (environment or {}),
    )
    return Run(done.returncode, done.stdout, done.stderr)


class Helm:
    """One Helm with a home of its own, and the cluster that it installs into, if any."""

    def __init__(self, program: Path, home: Path, kubeconfig: Path | None = None) -> None:
        self.program = program
        self._environment = {
            "HOME": str(home),
            "HELM_CACHE_HOME": str(home / "cache"),
            "HELM_CONFIG_HOME": str(home / "config"),
            "HELM_DATA_HOME": str(home / "data"),
            "KUBECONFIG": str(kubeconfig or os.devnull),
        }

    def run(self, *arguments: str | Path) -> Run:
        """Run a command of Helm."""
        return run([self.program, *arguments], environment=self._environment)

    def render(self, values: Mapping[str, Any], namespace: str, directory: Path, *flags: str) -> Run:
        """Render the chart with values, without a cluster and without hooks, which only Helm has."""
        file = directory / "values.json"
        file.write_text(json.dumps(values))
        version = ["--kube-version", KUBERNETES]
        return self.run(
            "template", "trellis", CHART, "--namespace", namespace, "--values", file, *version, "--no-hooks", *flags
        )


def read_manifests(text: str) -> list[Manifest]:
    """The objects in what Helm printed."""
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


def _parse(text: str) -> Any:
    return yaml.load(text, Loader=yaml.CSafeLoader)


def by_key(manifests: Sequence[Manifest]) -> dict[tuple[str, str, str], Manifest]:
    """Manifests by kind, namespace and name. Files of configuration in them are compared by content."""
    keyed = {}
    for manifest in manifests:
        metadata = manifest["metadata"]
        files = manifest.get("data", {}).items()
        data = {key: _parse(text) if key.endswith((".yaml", ".json")) else text for key, text in files}
        shown = manifest | ({"data": data} if manifest["kind"] == "ConfigMap" else {})
        keyed[(manifest["kind"], metadata.get("namespace", ""), metadata["name"])] = shown
    assert len(keyed) == len(manifests)
    return keyed
