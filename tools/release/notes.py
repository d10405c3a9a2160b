"""Prints the notes of a release: its section of the changelog. `python tools/release/notes.py VERSION`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

CHANGELOG: Final = Path(__file__).resolve().parents[2] / "CHANGELOG.md"

_HEADING: Final = re.compile(r"^## \[(?P<name>[^]]+)\].*$", re.MULTILINE)


def find_notes(changelog: str, version: str) -> str:
    """The text below the heading of a version, `Unreleased` included; ends the program where there is none."""
    headings = list(_HEADING.finditer(changelog))
    for at, heading in enumerate(headings):
        if heading["name"].lower() == version.lower():
            end = headings[at + 1].start() if at + 1 < len(headings) else len(changelog)
            return changelog[heading.end() : end].strip() + "\n"
    known = ", ".join(heading["name"] for heading in headings)
    sys.exit(
        f"CHANGELOG.md has no section [{version}]; it has {known}. Name the section after the version, with a date"
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/release/notes.py VERSION")
    sys.stdout.write(find_notes(CHANGELOG.read_text(), sys.argv[1]))
