"""Anonymizes the objects of a dump: every name gets a pseudonym, wherever it stands.

Whatever is text is replaced, unless it is known to say nothing about whose cluster it is: a quantity, a time, a
mode, a well-known key. A field that a later release adds is replaced until it is listed in `public_fields`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from trellis.api.kinds.kwok_node_group import BOOT_SECONDS_ANNOTATION, FAILURE_MODE_ANNOTATION, ORDERED_AT_ANNOTATION
from trellis.api.kube.coordination import ConfigMap
from trellis.api.kube.storage import SELECTED_NODE
from trellis.core.boost import annotation
from trellis.core.cluster.dump_format import FREEZE_CONFIG_MAP
from trellis.core.cluster.pod_annotations import IN_PLACE_UPDATED_ANNOTATION
from trellis.core.lint.manifests import ManifestSource, read_manifests
from trellis.core.nodes.state.pods import MIRROR_POD_ANNOTATION
from trellis.core.recommend.registry import built_in_recommenders
from trellis.core.recommend.state.shadows import SHADOW_RECOMMENDERS
from trellis.core.recommend.state.tables import INTEGER_CPU_PREFIX, INTEGER_CPU_SUFFIX
from trellis.core.resize.freeze import FREEZE_ANNOTATION
from trellis.core.usage.checkpoints.format import KEPT_FROM_ANNOTATION
from trellis.sources.cluster.pseudonyms import Pseudonyms
from trellis.sources.cluster.public_fields import (
    AMOUNT_FIELDS,
    DROPPED_FIELDS,
    KEY_FIELDS,
    LABEL_FIELDS,
    NODE_FIELDS,
    PUBLIC_COMPONENTS,
    PUBLIC_FIELDS,
)
from trellis.sources.cluster.redaction import DISRUPTION_ANNOTATIONS, EVICTION_DETAILS, NAME_LISTS

# What cannot be read stays so, whatever it says.
_UNREADABLE: Final = "{"


def anonymize_node_groups(
    files: Mapping[str, str], mask: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> dict[str, str]:
    """Each document of the files in a file of its own, as JSON; `mask` masks one."""
    found: list[str] = []
    for name, text in sorted(files.items()):
        manifests, broken = read_manifests(ManifestSource(name, text.encode(errors="surrogatepass")))
        found += [msgspec.json.encode(mask(each.value)).decode() for each in manifests]
        found += [_UNREADABLE] * len(broken)
    return {f"group-{number}": text for number, text in enumerate(found)}


_NODE_NAME: Final = "metadata.name"
# Annotations of which the value is a time, a number or a word of ours.
_AS_WRITTEN: Final = frozenset(
    {
        IN_PLACE_UPDATED_ANNOTATION,
        ORDERED_AT_ANNOTATION,
        BOOT_SECONDS_ANNOTATION,
        FAILURE_MODE_ANNOTATION,
        *EVICTION_DETAILS,
    }
)
_YES_OR_NO: Final = frozenset({"true", "false", "yes"})


class Anonymizer(Pseudonyms):
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
        if kind == ConfigMap.__name__ and metadata.get("name") != FREEZE_CONFIG_MAP:
            masked["data"] = anonymize_node_groups(document.get("data", {}), self.document)
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
        if field in AMOUNT_FIELDS and _is_flat(found):
            return {self.key(name): value for name, value in found.items()}
        if field in LABEL_FIELDS and all(isinstance(value, str) for value in found.values()):
            return {self.key(name): self.label(name, value) for name, value in found.items()}
        if field == "annotations":
            return dict(self._annotations(found))
        if field == "disruptedPods":
            return {self.name(name): value for name, value in found.items()}
        if field == "data":
            return {name: self._freeze(name, value) for name, value in found.items()}
        kept = {name: value for name, value in found.items() if name not in DROPPED_FIELDS}
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
        if not text or field in PUBLIC_FIELDS:
            return text
        if field in ("component", "reportingComponent") and text.startswith(PUBLIC_COMPONENTS):
            return text
        for fields, mask in (
            (NODE_FIELDS, self.node),
            (KEY_FIELDS, self.key),
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
            if name in NAME_LISTS:
                kept.append((name, re.sub(r"[^,\s]+", lambda each: self.name(each[0]), value)))
            elif name in _AS_WRITTEN or (name in DISRUPTION_ANNOTATIONS and value in _YES_OR_NO):
                kept.append((name, value))
            elif name == SELECTED_NODE:
                kept.append((name, self.node(value)))
            elif name.startswith(annotation.ANNOTATION_PREFIX):
                kept.append(
                    (annotation.annotation_key(self.name(name.removeprefix(annotation.ANNOTATION_PREFIX))), value)
                )
            elif name.startswith(INTEGER_CPU_PREFIX):
                container = name.removeprefix(INTEGER_CPU_PREFIX).removesuffix(INTEGER_CPU_SUFFIX)
                kept.append(
                    (
                        f"{INTEGER_CPU_PREFIX}{self.name(container)}{INTEGER_CPU_SUFFIX}",
                        value,
                    )
                )
            elif name in (KEPT_FROM_ANNOTATION, MIRROR_POD_ANNOTATION):
                kept.append((name, self.name(value)))
            elif name == SHADOW_RECOMMENDERS:
                kept.append((name, re.sub(r"[^,\s]+", lambda each: self._recommender(each[0]), value)))
            elif name == FREEZE_ANNOTATION:
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
