"""The image that the manifests in deploy/ run holds what they start, as the account that they want."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from trellis.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def test_files_that_the_image_copies_exist() -> None:
    copied = [
        name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE) for name in line.split()
    ]
    assert "src" in copied
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_every_manifest_starts_a_command_of_it_under_its_account() -> None:
    [(user, group)] = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    [entry] = re.findall(r"^ENTRYPOINT \[\"(.*)\"\]$", DOCKERFILE, re.MULTILINE)
    started = set()
    for path in (ROOT / "deploy").glob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] == "Deployment":
                pod = document["spec"]["template"]["spec"]
                started.add(tuple(pod["containers"][0]["command"][:2]))
                assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (
                    int(user),
                    int(group),
                )
    assert {name for name, _ in started} == {entry}
    assert {command for _, command in started} <= set(COMMANDS)
    assert len(started) == 6
