"""Finds where the documentation is published: `TRELLIS_DOCS_URL`, or else the metadata of the package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, metadata
from typing import Final

import click

from trellis.base.errors import InvalidInput
from trellis.reports.html.documentation import UNPUBLISHED, Documentation, parse_documentation

VARIABLE: Final = "TRELLIS_DOCS_URL"
_PACKAGE: Final = "trellis-autoscaler"


def find_documentation(environment: Mapping[str, str]) -> Documentation:
    """The documentation that pages link to; an address that is none is refused."""
    if address := environment.get(VARIABLE, ""):
        return _parse(f"environment variable {VARIABLE}", address)
    return find_in_metadata(_list_project_urls())


def find_in_metadata(project_urls: Iterable[str]) -> Documentation:
    """The address labelled "Documentation" among entries such as `Documentation, https://docs.example.com`."""
    for entry in project_urls:
        label, _, address = entry.partition(",")
        if label.strip().lower() == "documentation":
            return _parse(f"Project-URL of {_PACKAGE}", address.strip())
    return UNPUBLISHED


def _list_project_urls() -> list[str]:
    try:
        return metadata(_PACKAGE).get_all("Project-URL") or []
    except PackageNotFoundError:
        return []


def _parse(source: str, address: str) -> Documentation:
    try:
        return parse_documentation(address)
    except InvalidInput as error:
        raise click.UsageError(f"{source}: {error}") from error
