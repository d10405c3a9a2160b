"""The documentation as a site, built once for all workers of a run."""

from __future__ import annotations

import fcntl
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs_site.build import build_site

ROOT = Path(__file__).resolve().parents[3]
REASON = "Sphinx and its theme are not installed; `make site` installs them"
INSTALLED = all(find_spec(name) for name in ("sphinx", "myst_parser", "furo"))


def build_shared_site(factory: pytest.TempPathFactory) -> Path:
    """Builds it, unless another worker did."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    site = folder / "docs-site"
    with (folder / "docs-site.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (site / "index.html").exists():
            assert build_site(ROOT, site) == 0
    return site
