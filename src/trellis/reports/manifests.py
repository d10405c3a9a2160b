"""Objects as YAML documents, the way people write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml


class _Writer(yaml.SafeDumper):
    """Block style, no anchors, list items indented like their key's siblings."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Nobody wants to read `*id001` in a manifest."""
        return True


def as_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """One document per object, keys in the order they have."""
    documents = (
        yaml.dump(dict(item), Dumper=_Writer, sort_keys=False, width=110, allow_unicode=True) for item in objects
    )
    return "---\n" + "---\n".join(documents)
