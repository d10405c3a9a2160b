"""What a release publishes beside its code says what the code says."""

from __future__ import annotations

import hashlib
import re
import shutil
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

from release.build import list_problems
from release.chart import package_chart
from release.krew import build_archive, fill_manifest
from release.lock import IMAGE_EXTRAS
from release.notes import find_notes
from release.provenance import build_provenance
from release.sbom import build_sbom, find_licence

ROOT = Path(__file__).resolve().parents[3]
EPOCH = 1_800_000_000
CHANGELOG = """# Changelog

## [Unreleased]

### Added

- Tomorrow.

## [0.2.0] - 2027-01-02

- Today.

## [0.1.0] - 2026-12-01

- Yesterday.
"""


def list_required() -> dict[str, set[str]]:
    """Versions and hashes of each package that the image installs."""
    text = (ROOT / "deploy" / "requirements.txt").read_text()
    required = {}
    for block in re.split(r"\n(?=\S)", text):
        if found := re.match(r"([\w-]+)==([\w.]+)", block):
            required[f"pkg:pypi/{found[1]}@{found[2]}"] = set(re.findall(r"sha256:([0-9a-f]{64})", block))
    return required


def test_the_sbom_lists_what_the_image_installs_with_hashes_of_the_lock() -> None:
    components = {component["purl"]: component for component in build_sbom(ROOT, "0.1.0", EPOCH)["components"]}
    required = list_required()
    assert len(required) > 20
    assert components.keys() == required.keys()
    for purl, component in components.items():
        files = component["externalReferences"]
        hashes = {file["hashes"][0]["content"] for file in files}
        assert hashes <= required[purl]
        assert any("-none-any.whl" in file["url"] for file in files) or {
            architecture for file in files for architecture in ("x86_64", "aarch64") if architecture in file["url"]
        } == {"x86_64", "aarch64"}, purl
        assert component["purl"].endswith(f"@{component['version']}")


def test_every_component_of_the_sbom_has_a_licence_and_is_needed() -> None:
    document = build_sbom(ROOT, "0.1.0", EPOCH)
    assert [component["name"] for component in document["components"] if "unknown" in str(component["licenses"])] == []
    references = {component["bom-ref"] for component in document["components"]}
    project, *_ = document["dependencies"]
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [requirement for extra in IMAGE_EXTRAS for requirement in declared["optional-dependencies"][extra]]
    declared = [*declared["dependencies"], *extras]
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in declared}  # type: ignore[index]
    assert {re.split("[/@]", reference)[2 - 1] for reference in project["dependsOn"]} == names
    needed = {reference for entry in document["dependencies"] for reference in entry["dependsOn"]}
    assert needed == references


def test_the_sbom_is_the_same_for_the_same_sources() -> None:
    first, second = build_sbom(ROOT, "0.1.0", EPOCH), build_sbom(ROOT, "0.1.0", EPOCH)
    assert first == second
    assert first["metadata"]["timestamp"] == "2027-01-15T08:00:00Z"
    assert build_sbom(ROOT, "0.2.0", EPOCH)["serialNumber"] != first["serialNumber"]


@pytest.mark.parametrize(
    ("package", "licence"),
    [
        ("aiohttp", {"expression": "Apache-2.0 AND MIT"}),
        ("aiosignal", {"expression": "Apache-2.0"}),
        ("uvloop", {"expression": "Apache-2.0 OR MIT"}),
        ("no-such-package", {"license": {"name": "unknown"}}),
    ],
)
def test_a_licence_is_stated_as_spdx_names_it(package: str, licence: dict[str, object]) -> None:
    assert find_licence(package) == licence


def test_the_provenance_names_files_images_commit_lock_and_base(tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    wheel.write_bytes(b"wheel")
    statement = build_provenance(
        ROOT,
        [wheel],
        {"image": "sha256:12"},
        version="0.1.0",
        revision="c0ffee",
        base="registry.example/python@sha256:ab",
        builder="https://builder.example",
    )
    assert statement["subject"] == [
        {"name": "a.whl", "digest": {"sha256": hashlib.sha256(b"wheel").hexdigest()}},
        {"name": "image", "digest": {"sha256": "12"}},
    ]
    materials = {
        one["name"]: one.get("digest") for one in statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    }
    assert materials["source"] == {"gitCommit": "c0ffee"}
    assert materials["uv.lock"] == {"sha256": hashlib.sha256((ROOT / "uv.lock").read_bytes()).hexdigest()}
    assert materials["registry.example/python"] == {"sha256": "ab"}


def test_a_base_without_a_digest_is_stated_without_one() -> None:
    statement = build_provenance(ROOT, [], {}, version="1", revision="", base="local:3", builder="https://b.example")
    assert statement["predicate"]["buildDefinition"]["resolvedDependencies"][-1] == {"name": "local:3"}


@pytest.mark.parametrize(
    ("version", "notes"),
    [("0.2.0", "- Today.\n"), ("unreleased", "### Added\n\n- Tomorrow.\n"), ("0.1.0", "- Yesterday.\n")],
)
def test_the_notes_are_the_section_of_the_version(version: str, notes: str) -> None:
    assert find_notes(CHANGELOG, version) == notes


def test_a_version_without_a_section_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"no section \[0.3.0\]; it has Unreleased, 0.2.0, 0.1.0"):
        find_notes(CHANGELOG, "0.3.0")


def test_what_keeps_a_commit_from_being_released_is_named(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    shutil.copytree(ROOT / "deploy" / "krew", tmp_path / "deploy" / "krew")
    project = '[project.urls]\nHomepage = "h"\nDocumentation = "d"\nSource = "s"\n'
    (tmp_path / "pyproject.toml").write_text(f"[project]\n{project}")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    krew = tmp_path / "deploy" / "krew" / "trellis.yaml"
    text = krew.read_text().replace("v0.1.0", "v0.2.0")
    krew.write_text(text)
    frozen = tmp_path / "tests" / "releases" / "0.2.0" / "trellis-0.2.0.tgz"
    frozen.parent.mkdir(parents=True)
    frozen.write_bytes(package_chart(tmp_path))
    assert list_problems(tmp_path, "0.2.0") == []
    krew.write_text(text.replace("v0.2.0", "v0.1.0"))
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    problems = list_problems(tmp_path, "0.3.0")
    assert [problem.partition(":")[0] for problem in problems] == [
        "pyproject.toml",
        "deploy/krew/trellis.yaml",
        "CHANGELOG.md",
        "tests/releases/0.3.0",
    ]


def test_krew_installs_the_launcher_from_the_archive_of_the_release(tmp_path: Path) -> None:
    archive = build_archive(ROOT, tmp_path, EPOCH)
    template = (ROOT / "deploy" / "krew" / "trellis.yaml").read_text()
    text = fill_manifest(
        template, archive, homepage="https://trellis.example", downloads="https://files.example/v0.1.0/"
    )
    spec = yaml.safe_load(text)["spec"]
    assert ("example.com" in text, "placeholder" in text) == (False, False)
    assert spec["homepage"] == "https://trellis.example"
    [platform] = spec["platforms"]
    assert platform["uri"] == f"https://files.example/v0.1.0/{archive.name}"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as packed:
        modes = {member.name: oct(member.mode) for member in packed.getmembers()}
        assert modes == {platform["bin"]: "0o755", "LICENSE": "0o644"}
        assert {file["from"] for file in platform["files"]} == modes.keys()
        launcher = packed.extractfile(platform["bin"])
        assert launcher is not None
        assert launcher.read() == (ROOT / "deploy" / "krew" / "kubectl-trellis").read_bytes()


def test_the_plug_in_is_the_same_for_the_same_sources_and_keeps_its_placeholders_without_an_address(
    tmp_path: Path,
) -> None:
    first = build_archive(ROOT, tmp_path, EPOCH).read_bytes()
    archive = build_archive(ROOT, tmp_path, EPOCH)
    assert archive.read_bytes() == first
    template = (ROOT / "deploy" / "krew" / "trellis.yaml").read_text()
    filled = yaml.safe_load(fill_manifest(template, archive, homepage="", downloads=""))
    before = yaml.safe_load(template)
    assert filled["spec"]["platforms"][0].pop("sha256") != before["spec"]["platforms"][0].pop("sha256")
    assert filled == before


def test_the_release_workflow_runs_commands_that_exist() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    # YAML 1.1 reads the key `on` as true.
    assert list(workflow[True]) == ["workflow_dispatch"]
    jobs = workflow["jobs"]
    assert {need for job in jobs.values() for need in [job.get("needs")] if need} <= set(jobs)
    commands = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([\w-]+)", commands)) <= targets
    scripts = set(re.findall(r"\btools/[\w/]+\.py", commands))
    assert scripts
    assert [script for script in scripts if not (ROOT / script).exists()] == []
    assert '--downloads "$DOWNLOADS"' in commands  # for the manifest of krew
    assert {"make lint", "make test"} <= set(re.findall(r"make \w+", commands))
    architectures = [entry["architecture"] for entry in jobs["image"]["strategy"]["matrix"]["include"]]
    assert architectures == ["amd64", "arm64"]


def test_the_release_workflow_interpolates_no_input_into_a_script() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    scripts = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert scripts
    assert [script for script in scripts if "${{" in script] == []
