"""Every command and every manifest in the documentation works, and prints what the page says it prints.

A ```console block is a transcript: lines that start with `$ ` are run, what follows is compared. A line `...` stands
for any number of lines. Commands of `make` are left out here: they run this test, among others, and the demo has a test
of its own.

`REWRITE_GOLDEN=1` writes into the blocks what the commands print now; the diff then shows what changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.docs.transcripts import BLOCK, Step, matches, replace_steps, rewrite_lines, steps
from support.wheels import build_wheel, install
from trellis.cli.process.configuration_format import build_configuration_format
from trellis.core.lint.check import check
from trellis.core.lint.manifests import ManifestSource

ROOT = Path(__file__).resolve().parents[2]
# Far more seconds than any command takes: some simulate for ten, and a machine may have much else to do.
PATIENCE = 600
REWRITES = bool(os.environ.get("REWRITE_GOLDEN"))
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def blocks(language: str) -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer(page.read_text()), start=1):
            if match[1] == language:
                yield f"{page.relative_to(ROOT)}#{number}", match[2]


def transcripts() -> list[tuple[str, list[Step]]]:
    """The console blocks, each as commands with the lines they print."""
    return [(name, steps(text)) for name, text in blocks("console")]


def alike() -> list[dict[str, list[Step]]]:
    """The same, by where they stand: blocks of the same commands are together, and are run once for all of them."""
    result: dict[tuple[str, ...], dict[str, list[Step]]] = {}
    for name, block in transcripts():
        result.setdefault(tuple(command for command, _ in block), {})[name] = block
    return list(result.values())


def manifests() -> list[tuple[str, str]]:
    return [(name, text) for name, text in blocks("yaml") if "kind:" in text and "apiVersion:" in text]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a reader has at hand: the examples and the pages, and `trellis` on the path."""
    for name in ("examples", "docs", "deploy"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture(scope="session")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install ./examples/recommender-plugin` would put beside Trellis, and nothing else would."""
    work = tmp_path_factory.mktemp("beside")
    install(build_wheel(ROOT / "examples" / "recommender-plugin", work), work / "site")
    return work / "site"


def printed(command: str, folder: Path, beside: Path) -> list[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(beside), "COLUMNS": "100", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout.splitlines()


@pytest.mark.timeout(PATIENCE + 60)
@pytest.mark.parametrize("same", alike(), ids=" ".join)
def test_a_transcript_is_true(
    same: dict[str, list[Step]], checkout: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    installs = any("write-a-recommender" in name for name in same)
    beside = request.getfixturevalue("beside") if installs else tmp_path / "nothing"
    rewritten: dict[str, list[Step]] = {name: [] for name in same}
    by_hand = []
    for steps_alike in zip(*same.values(), strict=True):
        command = steps_alike[0][0]
        runs = command.split()[0] not in {"make", "git", "kubectl", "pip", "pipx", "uv"}
        lines = printed(command, checkout, beside) if runs else []
        for name, (_, expected) in zip(same, steps_alike, strict=True):
            is_true = not runs or matches(lines, expected)
            shown = rewrite_lines(lines, expected) if REWRITES and not is_true else expected
            rewritten[name].append((command, shown if shown is not None else expected))
            if shown is None or (not is_true and not REWRITES):
                by_hand.append(f"{name}: $ {command}\n" + "\n".join(lines))
    for name, block in same.items() if REWRITES else ():
        page = ROOT / name.partition("#")[0]
        page.write_text(replace_steps(page.read_text(), block, rewritten[name]))
    advice = "mend by hand:" if REWRITES else "run with REWRITE_GOLDEN=1, and look at the difference:"
    assert not by_hand, f"not what the command prints; {advice}\n" + "\n\n".join(by_hand)


@pytest.mark.parametrize(("name", "text"), manifests(), ids=lambda value: value.partition("\n")[0])
def test_a_manifest_in_the_documentation_is_valid(name: str, text: str) -> None:
    result = check([ManifestSource(name, text.encode())], [build_configuration_format()])
    assert [str(finding.message) for finding in result.findings if finding.is_error] == []


def test_the_documentation_has_commands_to_run() -> None:
    assert len(transcripts()) >= 3
    assert len(manifests()) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    for target, _, heading in re.findall(r"\]\(([^)#\s]*)(#([^)\s]*))?\)", page.read_text()):
        if "://" not in target:
            path = page.parent / target if target else page
            assert path.exists(), f"{page.name}: {target}"
            assert not heading or heading in anchors(path), f"{page.name}: {target}#{heading}"


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.req("SB-47")
def test_the_guide_to_boost_advises_a_probe_for_every_boosted_container() -> None:
    guide = (ROOT / "docs" / "guides" / "startup-boost.md").read_text()
    advice = "Configure a readiness or startup probe for every container that is boosted."
    assert advice in " ".join(guide.split())
    assert "NoProbe" in guide
