"""How is a dump made that names nothing? Every name gets another one, wherever it stands.

Whatever is text is masked, unless it is known to say nothing about whose cluster it is: a quantity, a time, a mode, a
well-known key. A field that a later release adds is masked until somebody says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from trellis.api.kube.config_maps import ConfigMap
from trellis.api.kube.storage import SELECTED_NODE
from trellis.api.kwok_groups import BOOT_SECONDS, MISHAP, ORDERED_AT
from trellis.core.boost import memory
from trellis.core.model.dump_lines import FREEZE_SWITCH
from trellis.core.model.marks import IN_PLACE_UPDATED
from trellis.core.nodes.pods import MIRROR
from trellis.core.recommend import integer_cpu
from trellis.core.recommend.built_in import built_in_recommenders
from trellis.core.recommend.shadows import SHADOW_RECOMMENDERS
from trellis.core.resize.freezing import ANNOTATION
from trellis.core.usage.checkpoints import KEPT_FROM
from trellis.sources.cluster.cleaning import NAMES, OFFENCE, SAID_OF_GOING
from trellis.sources.cluster.known_fields import (
    AMOUNTS,
    DROPPED,
    KEYS,
    LABELS,
    NODES,
    PLAIN,
    PUBLIC_COMPONENTS,
)
from trellis.sources.cluster.masked_groups import masked_groups
from trellis.sources.cluster.masked_names import Names

_NODE_NAME: Final = "metadata.name"
# Annotations of which the value is a time, a number or a word of ours.
_AS_WRITTEN: Final = frozenset({IN_PLACE_UPDATED, ORDERED_AT, BOOT_SECONDS, MISHAP, *OFFENCE})
_YES_OR_NO: Final = frozenset({"true", "false", "yes"})


class Mask(Names):
    """Other names for everything in objects, by one secret."""

    def __init__(self, secret: bytes) -> None:
        super().__init__(secret)
        self._recommenders = frozenset(built_in_recommenders())

    def document(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """An object."""
        masked: dict[str, Any] = self._value("", dict(document))
        kind, metadata = document.get("kind"), document.get("metadata", {})
        # Of these two the name is that of a whole.
        for wanted, mask in (("Node", self.node), ("Namespace", self.namespace)):
            if kind == wanted:
                masked["metadata"]["name"] = mask(metadata.get("name", ""))
        if kind == ConfigMap.__name__ and metadata.get("name") != FREEZE_SWITCH:
            masked["data"] = masked_groups(document.get("data", {}), self.document)
        return masked

    def _value(self, field: str, value: Any) -> Any:
        match value:
            case dict():
                return self._map(field, value)
            case list():
                return [self._value(field, each) for each in value]
            case str():
                return self._text(field, value)
            case _:
                return value

    def _map(self, field: str, found: dict[str, Any]) -> dict[str, Any]:
        if field == "parameters":
            return found
        if field in AMOUNTS and _is_flat(found):
            return {self.key(name): value for name, value in found.items()}
        if field in LABELS and all(isinstance(value, str) for value in found.values()):
            return {self.key(name): self.label(name, value) for name, value in found.items()}
        if field == "annotations":
            return dict(self._annotations(found))
        if field == "disruptedPods":
            return {self.name(name): value for name, value in found.items()}
        if field == "data":
            return {name: self._freeze(name, value) for name, value in found.items()}
        kept = {name: value for name, value in found.items() if name not in DROPPED}
        if "key" in found:
            return self._keyed(kept)
        masked = {name: self._value(name, value) for name, value in kept.items()}
        if field in ("resource", "containerResource", "os") and "name" in found:
            masked["name"] = found["name"]
        if field == "recommenders" and "name" in found:
            masked["name"] = self._recommender(found["name"])
        return masked

    def _keyed(self, found: dict[str, Any]) -> dict[str, Any]:
        """A requirement, a taint or a toleration: its values belong to its key."""
        key = found["key"]
        mask: Callable[[str], str] = self.node if key == _NODE_NAME else lambda value: self.label(key, value)
        masked = {name: self._value(name, value) for name, value in found.items()}
        masked["key"] = key if key == _NODE_NAME else self.key(key)
        if "values" in found:
            masked["values"] = [mask(each) for each in found["values"]]
        if "value" in found:
            masked["value"] = mask(found["value"])
        return masked

    def _text(self, field: str, text: str) -> str:
        if not text or field in PLAIN:
            return text
        if field in ("component", "reportingComponent") and text.startswith(PUBLIC_COMPONENTS):
            return text
        for fields, mask in (
            (NODES, self.node),
            (KEYS, self.key),
            (("namespace", "namespaces"), self.namespace),
            (("kind",), self.kind),
            (("apiVersion",), self.api_version),
            (("selector",), self.selector),
            (("type", "conditionType"), self._type),
        ):
            if field in fields:
                return mask(text)
        return self.name(text)

    def _type(self, text: str) -> str:
        """A type of conditions: those that somebody added have a domain."""
        return self.key(text) if "/" in text else text

    def _annotations(self, found: Mapping[str, str]) -> list[tuple[str, str]]:
        """Those of which it is known what they say."""
        kept: list[tuple[str, str]] = []
        for name, value in found.items():
            if name in NAMES:
                kept.append((name, re.sub(r"[^,\s]+", lambda each: self.name(each[0]), value)))
            elif name in _AS_WRITTEN or (name in SAID_OF_GOING and value in _YES_OR_NO):
                kept.append((name, value))
            elif name == SELECTED_NODE:
                kept.append((name, self.node(value)))
            elif name.startswith(memory.PREFIX):
                kept.append((memory.memory_key(self.name(name.removeprefix(memory.PREFIX))), value))
            elif name.startswith(integer_cpu.PREFIX):
                container = name.removeprefix(integer_cpu.PREFIX).removesuffix(integer_cpu.SUFFIX)
                kept.append((f"{integer_cpu.PREFIX}{self.name(container)}{integer_cpu.SUFFIX}", value))
            elif name in (KEPT_FROM, MIRROR):
                kept.append((name, self.name(value)))
            elif name == SHADOW_RECOMMENDERS:
                kept.append((name, re.sub(r"[^,\s]+", lambda each: self._recommender(each[0]), value)))
            elif name == ANNOTATION:
                kept.append((name, self._freeze("freeze", value)))
        return kept

    def _recommender(self, name: str) -> str:
        """A recommender: those that come with Trellis are the same everywhere."""
        return name if name in self._recommenders else self.name(name)

    def _freeze(self, name: str, value: str) -> str:
        """What somebody wrote into the switch that stops all changes: whether, by whom, and why."""
        if name == "why":
            return ""
        return value if value.strip().lower() in ("", "true", "false", "yes", "on", "1") else self.name(value)


def _is_flat(found: Mapping[str, Any]) -> bool:
    """Whether it maps to amounts; a LimitRange's item and the target of an HPA stand in fields of the same names."""
    return "type" not in found and not any(isinstance(each, dict | list) for each in found.values())
