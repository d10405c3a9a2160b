"""File formats of Trellis that are no kinds of its API; the layers above declare them.

Which fields a configuration file has follows from the settings of components, which nothing below them knows. The
composition root passes such a format to the check, with the function that finds its problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from trellis.api.problems import ValidationProblem
from trellis.api.registry import Kind


class FileFormat(msgspec.Struct, frozen=True, eq=False):
    """A format: `apiVersion` and `kind` of its files, a sentence about their effect, and what finds their problems."""

    group: str
    version: str
    name: str
    effect: str
    find_problems: Callable[[Mapping[str, Any]], Iterable[ValidationProblem]]
    retired_versions: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """Group and version as a file spells them."""
        return f"{self.group}/{self.version}"


KnownKind: TypeAlias = Kind | FileFormat
