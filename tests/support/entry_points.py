"""Installs a recommender for a test, by the metadata that a package would announce, in a directory on the path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def announce(site: Path, package: str, recommenders: Mapping[str, str], version: str = "1.0") -> None:
    """A package of that name, with an entry point for each recommender: its name, and what is called for it."""
    about = site / f"{package.replace('-', '_')}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    lines = [f"{name} = {value}" for name, value in recommenders.items()]
    (about / "entry_points.txt").write_text("\n".join(["[trellis.recommenders]", *lines]))
