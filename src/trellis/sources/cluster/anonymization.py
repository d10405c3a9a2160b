"""Anonymizes the objects of a dump: every name gets a pseudonym.

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
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.core.recommend.state.tables import INTEGER_CPU_PREFIX, INTEGER_CPU_SUFFIX, SHADOW_RECOMMENDERS
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

# Replaces a document that cannot be read.
_UNREADABLE: Final = "{"


def anonymize_node_groups(
    files: Mapping[str, str], mask: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> dict[str, str]:
    """The masked documents of the files as JSON, one file each; `mask` masks a document."""
    documents: list[str] = []
    for name, text in sorted(files.items()):
        manifests, broken = read_manifests(ManifestSource(name, text.encode(errors="surrogatepass")))
        documents += [msgspec.json.encode(mask(manifest.value)).decode() for manifest in manifests]
        documents += [_UNREADABLE] * len(broken)
    return {f"group-{number}": text for number, text in enumerate(documents)}


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
    """Replaces the names in objects by pseudonyms derived from one secret."""

    def __init__(self, secret: bytes) -> None:
        super().__init__(secret)
        self._recommenders = frozenset(create_built_in_recommenders())

    def anonymize(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The anonymized document of an object."""
        masked: dict[str, Any] = self._mask_value("", dict(document))
        kind, metadata = document.get("kind"), document.get("metadata", {})
        # Names of nodes and namespaces are replaced as a whole.
        for named_kind, mask in (("Node", self.mask_node), ("Namespace", self.mask_namespace)):
            if kind == named_kind:
                masked["metadata"]["name"] = mask(metadata.get("name", ""))
        if kind == ConfigMap.__name__ and metadata.get("name") != FREEZE_CONFIG_MAP:
            masked["data"] = anonymize_node_groups(document.get("data", {}), self.anonymize)
        return masked

    def _mask_value(self, field: str, value: Any) -> Any:
        match value:
            case dict():
                return self._mask_map(field, value)
            case list():
                return [self._mask_value(field, item) for item in value]
            case str():
                return self._mask_text(field, value)
            case _:
                return value

    def _mask_map(self, field: str, fields: dict[str, Any]) -> dict[str, Any]:
        if field == "parameters":
            return fields
        if field in AMOUNT_FIELDS and _is_flat(fields):
            return {self.mask_key(name): value for name, value in fields.items()}
        if field in LABEL_FIELDS and all(isinstance(value, str) for value in fields.values()):
            return {self.mask_key(name): self.mask_label(name, value) for name, value in fields.items()}
        if field == "annotations":
            return dict(self._mask_annotations(fields))
        if field == "disruptedPods":
            return {self.mask_name(name): value for name, value in fields.items()}
        if field == "data":
            return {name: self._mask_freeze(name, value) for name, value in fields.items()}
        remaining = {name: value for name, value in fields.items() if name not in DROPPED_FIELDS}
        if "key" in fields:
            return self._mask_requirement(remaining)
        masked = {name: self._mask_value(name, value) for name, value in remaining.items()}
        if field in ("resource", "containerResource", "os") and "name" in fields:
            masked["name"] = fields["name"]
        if field == "recommenders" and "name" in fields:
            masked["name"] = self._mask_recommender(fields["name"])
        return masked

    def _mask_requirement(self, fields: dict[str, Any]) -> dict[str, Any]:
        """A requirement, a taint or a toleration: its values belong to its key."""
        key = fields["key"]
        mask: Callable[[str], str] = self.mask_node if key == _NODE_NAME else lambda value: self.mask_label(key, value)
        masked = {name: self._mask_value(name, value) for name, value in fields.items()}
        masked["key"] = key if key == _NODE_NAME else self.mask_key(key)
        if "values" in fields:
            masked["values"] = [mask(value) for value in fields["values"]]
        if "value" in fields:
            masked["value"] = mask(fields["value"])
        return masked

    def _mask_text(self, field: str, text: str) -> str:
        if not text or field in PUBLIC_FIELDS:
            return text
        if field in ("component", "reportingComponent") and text.startswith(PUBLIC_COMPONENTS):
            return text
        for fields, mask in (
            (NODE_FIELDS, self.mask_node),
            (KEY_FIELDS, self.mask_key),
            (("namespace", "namespaces"), self.mask_namespace),
            (("kind",), self.mask_kind),
            (("apiVersion",), self.mask_api_version),
            (("selector",), self.mask_selector),
            (("type", "conditionType"), self._mask_type),
        ):
            if field in fields:
                return mask(text)
        return self.mask_name(text)

    def _mask_type(self, text: str) -> str:
        """The type of a condition; a custom one has a domain."""
        return self.mask_key(text) if "/" in text else text

    def _mask_annotations(self, annotations: Mapping[str, str]) -> list[tuple[str, str]]:
        """The annotations whose meaning is known, with their names and values masked."""
        masked: list[tuple[str, str]] = []
        for name, value in annotations.items():
            if name in NAME_LISTS:
                masked.append((name, re.sub(r"[^,\s]+", lambda match: self.mask_name(match[0]), value)))
            elif name in _AS_WRITTEN or (name in DISRUPTION_ANNOTATIONS and value in _YES_OR_NO):
                masked.append((name, value))
            elif name == SELECTED_NODE:
                masked.append((name, self.mask_node(value)))
            elif name.startswith(annotation.ANNOTATION_PREFIX):
                masked.append(
                    (annotation.annotation_key(self.mask_name(name.removeprefix(annotation.ANNOTATION_PREFIX))), value)
                )
            elif name.startswith(INTEGER_CPU_PREFIX):
                container = name.removeprefix(INTEGER_CPU_PREFIX).removesuffix(INTEGER_CPU_SUFFIX)
                masked.append(
                    (
                        f"{INTEGER_CPU_PREFIX}{self.mask_name(container)}{INTEGER_CPU_SUFFIX}",
                        value,
                    )
                )
            elif name in (KEPT_FROM_ANNOTATION, MIRROR_POD_ANNOTATION):
                masked.append((name, self.mask_name(value)))
            elif name == SHADOW_RECOMMENDERS:
                masked.append((name, re.sub(r"[^,\s]+", lambda match: self._mask_recommender(match[0]), value)))
            elif name == FREEZE_ANNOTATION:
                masked.append((name, self._mask_freeze("freeze", value)))
        return masked

    def _mask_recommender(self, name: str) -> str:
        """A recommender: those that come with Trellis are the same everywhere."""
        return name if name in self._recommenders else self.mask_name(name)

    def _mask_freeze(self, name: str, value: str) -> str:
        """A value of the freeze: whether changes are frozen, by whom, and why."""
        if name == "why":
            return ""
        return value if value.strip().lower() in ("", "true", "false", "yes", "on", "1") else self.mask_name(value)


def _is_flat(fields: Mapping[str, Any]) -> bool:
    """Whether it maps to amounts; a LimitRange's item and the target of an HPA stand in fields of the same names."""
    return "type" not in fields and not any(isinstance(value, dict | list) for value in fields.values())
