"""`make release-files`: builds what a release publishes into `build/release`, and checks that it is consistent.

Files are sdist and wheel, the archive of the image, the chart, the plug-in of kubectl with its krew manifest, the SBOM,
the provenance, the notes, and SHA256SUMS over all.

Built twice from the same commit on the same base they are the same, byte for byte. `docs/releasing.md` says what a
maintainer does with them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tools"))

from bootstrap import find_uv  # noqa: E402
from image import archive  # noqa: E402
from image import build as image_build  # noqa: E402
from release.chart import package_chart  # noqa: E402
from release.krew import build_archive, fill_manifest  # noqa: E402
from release.notes import find_notes  # noqa: E402
from release.provenance import build_provenance  # noqa: E402
from release.sbom import build_sbom  # noqa: E402

OUTPUT: Final = ROOT / "build" / "release"
_LOCAL_BUILDER: Final = "https://trellis.x-k8s.io/builder/local"


def main() -> None:
    """Build them, and say what there is."""
    parser = argparse.ArgumentParser(description="Build what a release publishes.")
    parser.add_argument("--python", help="base image of the image's build stage, by digest")
    parser.add_argument("--image", type=Path, action="append", default=[], help="archive that is built already")
    parser.add_argument("--downloads", default="", help="address below which the release has its files")
    parser.add_argument("--builder", default=_LOCAL_BUILDER, help="who builds, as the provenance says it")
    parser.add_argument("--check", action="store_true", help="only say what keeps this commit from being released")
    arguments = parser.parse_args()
    version = image_build.VERSION
    if arguments.check:
        problems = [*list_problems(ROOT, version), *list_uncommitted(ROOT)]
        sys.exit("\n".join(f"{problem}" for problem in problems) if problems else 0)
    build_files(OUTPUT, version, arguments)
    for path in sorted(OUTPUT.iterdir()):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


def list_problems(root: Path, version: str) -> list[str]:
    """What must be mended before a release of this version, each with where."""
    problems = []
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    if not {"Homepage", "Documentation", "Source"} <= set(project.get("urls", {})):
        problems.append("pyproject.toml: [project.urls] must name Homepage, Documentation and Source")
    krew = yaml.safe_load((root / "deploy" / "krew" / "trellis.yaml").read_text())["spec"]
    if krew["version"] != f"v{version}":
        problems.append(f"deploy/krew/trellis.yaml: spec.version is {krew['version']}, not v{version}")
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    if not re.search(heading, (root / "CHANGELOG.md").read_text(), re.MULTILINE):
        problems.append(f"CHANGELOG.md: there is no section `## [{version}] - YYYY-MM-DD`")
    frozen = root / "tests" / "releases" / version / f"trellis-{version}.tgz"
    if not frozen.exists() or frozen.read_bytes() != package_chart(root):
        problems.append(f"tests/releases/{version}: the chart is another one; run tools/release/freeze.py")
    return problems


def list_uncommitted(root: Path) -> list[str]:
    """A problem, if files differ from the commit that the provenance names."""
    status = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=False)
    return [f"files differ from the last commit:\n{status.stdout.rstrip()}"] if status.stdout.strip() else []


def build_files(output: Path, version: str, arguments: argparse.Namespace) -> None:
    """Write all files into an empty directory."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    epoch, revision = image_build.read_epoch(), image_build.read_revision()
    build_package(output, epoch)
    images = [Path(shutil.copy(path, output)) for path in arguments.image]
    if not images:
        images = [output / image_build.OUTPUT.name]
        image_build.build(images[0], arguments.python)
    _build_plugin(output, version, epoch, arguments.downloads)
    (output / f"trellis-{version}.tgz").write_bytes(package_chart(ROOT))
    _write_json(output / f"trellis-{version}.cdx.json", build_sbom(ROOT, version, epoch))
    changelog = (ROOT / "CHANGELOG.md").read_text()
    section = version if f"[{version}]" in changelog else "Unreleased"
    (output / f"trellis-{version}.md").write_text(find_notes(changelog, section))
    provenance = build_provenance(
        ROOT,
        list(output.iterdir()),
        {f"{path.stem}.manifest": archive.read_image_digest(path) for path in images},
        version=version,
        revision=revision,
        base=_read_base(images[0]),
        builder=arguments.builder,
    )
    _write_json(output / f"trellis-{version}.intoto.json", provenance)
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(output.iterdir())]
    (output / "SHA256SUMS").write_text("".join(sums))


def build_package(output: Path, epoch: int) -> None:
    """Sdist and wheel, by the tools that the lock names."""
    locked = ["--build-constraints=deploy/build-requirements.txt", "--require-build-hashes"]
    command = [find_uv(), "build", "--quiet", *locked, f"--out-dir={output}"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"the package cannot be built: {done.stderr.strip()[-2000:]}")
    (output / ".gitignore").unlink(missing_ok=True)  # uv writes one


def _build_plugin(output: Path, version: str, epoch: int, downloads: str) -> None:
    """The plug-in of kubectl as krew installs it."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
    template = (ROOT / "deploy" / "krew" / "trellis.yaml").read_text()
    archive = build_archive(ROOT, output, epoch)
    manifest = fill_manifest(template, archive, homepage=urls.get("Homepage", ""), downloads=downloads)
    (output / f"trellis-{version}.krew.yaml").write_text(manifest)


def _read_base(image: Path) -> str:
    base: str = archive.read_configuration(image)["Labels"]["org.opencontainers.image.base.name"]
    return base


def _write_json(file: Path, document: dict[str, Any]) -> None:
    file.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
