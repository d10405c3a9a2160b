"""Encodes collected objects as lines of a dump: redacted, anonymized if requested, and counted."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import msgspec

from trellis import __version__
from trellis.api.kube.meta import OwnerReference
from trellis.base.json_lines import FORMAT_VERSION, HEADER, RecordingHeader, encode_line, encode_payload
from trellis.core.cluster import dump_format
from trellis.core.cluster.dump_format import (
    DUMP,
    ContainerHistory,
    DumpedComponent,
    DumpedScale,
    DumpEnd,
    DumpInfo,
    MissingData,
    UsageColumns,
)
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.explain.component_decisions.reported_groups import ReportedGroups
from trellis.core.usage.samples import Samples
from trellis.sources.cluster.anonymization import Anonymizer
from trellis.sources.cluster.anonymized_groups import anonymize_groups
from trellis.sources.cluster.lists import FORBIDDEN, NOT_SERVED, NOT_THERE, UNREADABLE
from trellis.sources.cluster.redaction import redact

# What may be said of why something is missing in a dump that names nothing; what follows may be a name.
_REASONS: Final = (FORBIDDEN, NOT_SERVED, UNREADABLE, NOT_THERE)

# What components are called in registries of many.
_IMAGES: Final = ("trellis", "vpa-admission-controller", "vpa-recommender", "vpa-updater")

USAGE: Final = "usage"
HISTORY: Final = "history"
REPORTED_GROUPS: Final = "NodeGroup"


class DumpWriter:
    """Encodes lines, and counts objects by kind, samples, and missing data."""

    def __init__(self, mask: Anonymizer | None = None) -> None:
        self._mask = mask
        self.counts: Counter[str] = Counter()
        self.missing: list[MissingData] = []

    def encode_start(self, info: DumpInfo) -> tuple[bytes, bytes]:
        """The first two lines."""
        if self._mask is not None:
            namespaces = tuple(map(self._mask.mask_namespace, info.namespaces))
            info = msgspec.structs.replace(info, namespaces=namespaces, patterns=(), anonymous=True)
        return encode_line(HEADER, RecordingHeader(FORMAT_VERSION, DUMP, __version__)), encode_line(
            dump_format.ABOUT, info
        )

    def encode_end(self) -> bytes:
        """The last line."""
        return encode_line(dump_format.END, DumpEnd(dict(sorted(self.counts.items()))))

    def encode_object(self, item: Any, api_version: str, kind: str) -> bytes:
        """The line of an object of any kind."""
        # Only ours say themselves of which kind they are.
        document = {"apiVersion": api_version, "kind": kind} | msgspec.json.decode(encode_payload(item))
        redact(document, kind)
        self.counts[kind] += 1
        return encode_line(dump_format.OBJECT, document if self._mask is None else self._mask.anonymize(document))

    def encode_missing(self, missing: MissingData) -> bytes:
        """Missing data; `missing` keeps it in full, even if the dump is anonymized."""
        self.missing.append(missing)
        if self._mask is not None:
            reason = next((reason for reason in _REASONS if missing.why.startswith(reason)), "")
            missing = MissingData(missing.what.partition(" ")[0], self._mask.mask_namespace(missing.where), reason)
        return encode_line(dump_format.MISSING, missing)

    def encode_scale(self, target: TargetRef, scale: ScaleInfo, replicas: int | None = None) -> bytes:
        """The scale of a target, with its replicas if they are needed."""
        mask = self._mask
        if mask is not None:
            namespace, name = mask.mask_namespace(target.namespace), mask.mask_name(target.name)
            target = TargetRef(namespace, mask.mask_api_version(target.api_version), mask.mask_kind(target.kind), name)
            scale = ScaleInfo(
                mask.mask_selector(scale.selector),
                None if scale.controller is None else _anonymize_controller(mask, scale.controller),
                None if scale.problem is None else msgspec.structs.replace(scale.problem, message=""),
            )
        return encode_line(dump_format.SCALE, DumpedScale(target, scale, replicas))

    def encode_component(self, component: DumpedComponent) -> bytes:
        """A component; of its image and its flags a masked dump has what says nothing about where it is from."""
        self.counts[dump_format.COMPONENT] += 1
        if self._mask is not None:
            flags = {name: value for name, value in component.flags.items() if _is_figure(value)}
            base, _, tag = component.image.rpartition("/")[2].partition(":")
            image = f"{base}:{tag}" if base in _IMAGES else ""
            name = self._mask.mask_name(component.name)
            component = msgspec.structs.replace(component, name=name, image=image, flags=flags)
        return encode_line(dump_format.COMPONENT, component)

    def encode_reported_groups(self, groups: ReportedGroups) -> bytes:
        """The node groups of providers; a masked dump has the codes of their problems alone."""
        self.counts[REPORTED_GROUPS] += len(groups.states)
        if self._mask is not None:
            groups = anonymize_groups(groups, self._mask)
        return encode_line(dump_format.REPORTED_GROUPS, groups)

    def encode_usage(self, samples: Samples) -> bytes:
        """Current usage of containers."""
        self.counts[USAGE] += len(samples)
        names = samples.namespaces, samples.pods, samples.containers
        if self._mask is not None:
            masks = (self._mask.mask_namespace, self._mask.mask_name, self._mask.mask_name)
            names = (
                [masks[0](namespace) for namespace in names[0]],
                [masks[1](pod) for pod in names[1]],
                [masks[2](container) for container in names[2]],
            )
        return encode_line(dump_format.USAGE, UsageColumns(*names, samples.times, samples.cpu, samples.memory))

    def encode_history(self, history: ContainerHistory) -> bytes:
        """The usage of one container over time."""
        self.counts[HISTORY] += len(history)
        if self._mask is not None:
            history = msgspec.structs.replace(
                history,
                namespace=self._mask.mask_namespace(history.namespace),
                pod=self._mask.mask_name(history.pod),
                container=self._mask.mask_name(history.container),
            )
        return encode_line(dump_format.HISTORY, history)


def _anonymize_controller(mask: Anonymizer, controller: OwnerReference) -> OwnerReference:
    document = mask.anonymize({"ownerReferences": [msgspec.to_builtins(controller)]})
    return msgspec.convert(document["ownerReferences"][0], OwnerReference)


def _is_figure(value: str) -> bool:
    """Whether the value of a flag is a number, a duration, a quantity or a yes or no, and so no name."""
    return value in ("true", "false") or value[:1].isdecimal()
