"""What does a ConfigMap with groups of nodes say that names nothing? The same groups, under other names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from trellis.core.lint.manifests import Source, read_manifests

# What cannot be read stays so, whatever it says.
_UNREADABLE: Final = "{"


def masked_groups(files: Mapping[str, str], mask: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, str]:
    """Each document of the files in a file of its own, as JSON; `mask` masks one."""
    found: list[str] = []
    for name, text in sorted(files.items()):
        manifests, broken = read_manifests(Source(name, text.encode(errors="surrogatepass")))
        found += [msgspec.json.encode(mask(each.value)).decode() for each in manifests]
        found += [_UNREADABLE] * len(broken)
    return {f"group-{number}": text for number, text in enumerate(found)}
