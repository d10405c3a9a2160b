"""The configuration file as `trellis check` and `trellis schema` know it.

Its fields follow from the settings of all components. They are imported when a file of this kind is met: the check of
other manifests does not wait for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from trellis.api.problems import ValidationProblem
from trellis.core.lint.formats import FileFormat
from trellis.runtime.manager.configuration import EFFECT, GROUP, KIND, VERSION

if TYPE_CHECKING:
    from trellis.api.schema.tree import SchemaNode


def build_configuration_format() -> FileFormat:
    """The format, with what finds the problems of a file."""
    return FileFormat(GROUP, VERSION, KIND, EFFECT, _find_problems)


def build_configuration_tree() -> SchemaNode:
    """Every field of the file."""
    from trellis.cli.process.catalog import import_all_settings  # noqa: PLC0415
    from trellis.runtime.manager.configuration.fields import build_tree  # noqa: PLC0415

    return build_tree(import_all_settings())


def _find_problems(document: Mapping[str, Any]) -> Iterable[ValidationProblem]:
    from trellis.cli.process.catalog import import_all_settings  # noqa: PLC0415
    from trellis.runtime.manager.configuration.validation import find_problems  # noqa: PLC0415

    return find_problems(import_all_settings(), document)
