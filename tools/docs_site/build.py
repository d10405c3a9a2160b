"""`make site`: builds the documentation into `build/site`, and says how to look at it.

Every build starts from nothing, so that no page of a file that is gone stays behind. A warning, such as a link that
leads nowhere or a page that no table of `docs/README.md` lists, fails it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SITE: Final = ROOT / "build" / "site"


def build_site(root: Path, site: Path) -> int:
    """Builds the pages below `root`, and returns the exit status of Sphinx."""
    shutil.rmtree(site, ignore_errors=True)
    with tempfile.TemporaryDirectory() as doctrees:
        options = ["--conf-dir", str(Path(__file__).parent), "--doctree-dir", doctrees, "--jobs", "2"]
        strict = ["--fail-on-warning", "--quiet"]
        command = [sys.executable, "-m", "sphinx", *options, *strict, str(root), str(site)]
        return subprocess.run(command, check=False).returncode


def main() -> None:
    """Builds this checkout's documentation."""
    status = build_site(ROOT, SITE)
    if status:
        sys.exit(status)
    place = SITE.relative_to(ROOT)
    print(f"built {place}: open {place}/index.html in a browser, no server needed,")
    print(f"or serve it: python3 -m http.server --directory {place} --bind 127.0.0.1")


if __name__ == "__main__":
    main()
