"""The image that the manifests in deploy/ run holds what they start, as the account that they want."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from image import archive, containerfile
from trellis.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
INSTRUCTIONS = list(containerfile.list_instructions(CONTAINERFILE.read_text()))


def list_copied() -> list[str]:
    copies = [text.split()[:-1] for instruction, text in INSTRUCTIONS if instruction == "COPY"]
    return [name for names in copies for name in names if not names[0].startswith("--from")]


def test_files_that_the_image_copies_exist() -> None:
    assert "src" in list_copied()
    assert [name for name in list_copied() if not (ROOT / name).exists()] == []


def test_the_builder_is_sent_what_the_image_copies() -> None:
    ignored = (ROOT / "deploy" / "Containerfile.dockerignore").read_text()
    assert set(re.findall(r"^!(.*)$", ignored, re.MULTILINE)) == set(list_copied())


def test_the_base_image_is_an_argument_and_the_last_stage_has_none() -> None:
    assert [text for instruction, text in INSTRUCTIONS if instruction == "FROM"] == ["${PYTHON} AS build", "scratch"]
    assert next(text for instruction, text in INSTRUCTIONS if instruction == "ARG").startswith("PYTHON=")


def test_every_manifest_starts_a_command_of_it_under_its_account() -> None:
    configuration = containerfile.read_configuration(CONTAINERFILE, {})
    started = set()
    for path in (ROOT / "deploy").glob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] == "Deployment":
                pod = document["spec"]["template"]["spec"]
                started.add(tuple(pod["containers"][0]["command"][:2]))
                user = f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"
                assert user == configuration["User"]
    assert [name for name, _ in started] == configuration["Entrypoint"] * 6
    assert {command for _, command in started} <= set(COMMANDS)


def test_build_arguments_become_labels() -> None:
    configuration = containerfile.read_configuration(CONTAINERFILE, {"VERSION": "1.2.3", "PYTHON": "base@sha256:00"})
    labels = configuration["Labels"]
    assert labels["org.opencontainers.image.version"] == "1.2.3"
    assert labels["org.opencontainers.image.base.name"] == "base@sha256:00"
    assert labels["org.opencontainers.image.title"] == "Trellis"


@pytest.fixture
def root_file_system(tmp_path: Path) -> Path:
    """A small one, with a link to a path of the image."""
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "program").write_text("text")
    (root / "bin" / "program").chmod(0o755)
    (root / "python").symlink_to("/bin/program")
    return root


def test_an_image_is_unpacked_as_it_was_written(root_file_system: Path, tmp_path: Path) -> None:
    file, unpacked = tmp_path / "image.tar", tmp_path / "unpacked"
    archive.write_image(root_file_system, {"User": "65534:65534"}, file, 1_000)
    digest = archive.read_image_digest(file)
    archive.name_image(file, "trellis:1.2.3")
    assert archive.read_image_digest(file) == digest
    assert archive.unpack_image(file, unpacked) == {"User": "65534:65534"}
    assert (unpacked / "bin" / "program").read_text() == "text"
    assert (unpacked / "bin" / "program").stat().st_mode & 0o777 == 0o755
    assert (unpacked / "python").readlink() == Path("/bin/program")


def test_the_same_files_make_the_same_image_whatever_their_times(root_file_system: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.tar", tmp_path / "second.tar"
    archive.write_image(root_file_system, {}, first, 1_000)
    os.utime(root_file_system / "bin" / "program", (5, 5))
    archive.write_image(root_file_system, {}, second, 1_000)
    assert first.read_bytes() == second.read_bytes()
