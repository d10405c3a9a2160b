"""How is what was found written into a dump? Cleaned, masked if that is wanted, and counted."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import msgspec

from trellis import __version__
from trellis.api.kube.meta import OwnerReference
from trellis.core.model import dump_lines
from trellis.core.model.dump_lines import DUMP, About, Component, End, History, Missing, ScaleLine, UsageColumns
from trellis.core.model.owners import ScaleAnswer, TargetRef
from trellis.core.model.recording import FORMAT, HEADER, Header, encode, encode_line
from trellis.core.usage.samples import Samples
from trellis.sources.cluster.cleaning import clean
from trellis.sources.cluster.listing import FORBIDDEN, NOT_SERVED, NOT_THERE, UNREADABLE
from trellis.sources.cluster.masking import Mask

# What may be said of why something is missing in a dump that names nothing; what follows may be a name.
_WHYS: Final = (FORBIDDEN, NOT_SERVED, UNREADABLE, NOT_THERE)

# What components are called in registries of many.
_IMAGES: Final = ("trellis", "vpa-admission-controller", "vpa-recommender", "vpa-updater")

USAGE: Final = "usage"
HISTORY: Final = "history"


class Writing:
    """Makes lines. What they came to is counted meanwhile: objects by kind, samples, and what is missing."""

    def __init__(self, mask: Mask | None = None) -> None:
        self._mask = mask
        self.counts: Counter[str] = Counter()
        self.missing: list[Missing] = []

    def begin(self, about: About) -> tuple[bytes, bytes]:
        """The first two lines."""
        if self._mask is not None:
            namespaces = tuple(map(self._mask.namespace, about.namespaces))
            about = msgspec.structs.replace(about, namespaces=namespaces, patterns=(), anonymous=True)
        return encode_line(HEADER, Header(FORMAT, DUMP, __version__)), encode_line(dump_lines.ABOUT, about)

    def end(self) -> bytes:
        """The last line."""
        return encode_line(dump_lines.END, End(dict(sorted(self.counts.items()))))

    def object(self, found: Any, api_version: str, kind: str) -> bytes:
        """An object of any kind."""
        # Only ours say themselves of which kind they are.
        document = {"apiVersion": api_version, "kind": kind} | msgspec.json.decode(encode(found))
        clean(document, kind)
        self.counts[kind] += 1
        return encode_line(dump_lines.OBJECT, document if self._mask is None else self._mask.document(document))

    def lacks(self, missing: Missing) -> bytes:
        """Something that is not there; who collects is told in full, even where the dump names nothing."""
        self.missing.append(missing)
        if self._mask is not None:
            why = next((each for each in _WHYS if missing.why.startswith(each)), "")
            missing = Missing(missing.what.partition(" ")[0], self._mask.namespace(missing.where), why)
        return encode_line(dump_lines.MISSING, missing)

    def scale(self, target: TargetRef, answer: ScaleAnswer, replicas: int | None = None) -> bytes:
        """What a scale says, and how many replicas it has if somebody needs that."""
        mask = self._mask
        if mask is not None:
            namespace, name = mask.namespace(target.namespace), mask.name(target.name)
            target = TargetRef(namespace, mask.api_version(target.api_version), mask.kind(target.kind), name)
            answer = ScaleAnswer(
                mask.selector(answer.selector),
                None if answer.controller is None else _masked(mask, answer.controller),
                None if answer.problem is None else msgspec.structs.replace(answer.problem, message=""),
            )
        return encode_line(dump_lines.SCALE, ScaleLine(target, answer, replicas))

    def component(self, component: Component) -> bytes:
        """A component; of its image and its flags a masked dump has what says nothing about where it is from."""
        self.counts[dump_lines.COMPONENT] += 1
        if self._mask is not None:
            flags = {name: value for name, value in component.flags.items() if _is_figure(value)}
            base, _, tag = component.image.rpartition("/")[2].partition(":")
            image = f"{base}:{tag}" if base in _IMAGES else ""
            name = self._mask.name(component.name)
            component = msgspec.structs.replace(component, name=name, image=image, flags=flags)
        return encode_line(dump_lines.COMPONENT, component)

    def usage(self, samples: Samples) -> bytes:
        """What containers use now."""
        self.counts[USAGE] += len(samples)
        names = samples.namespaces, samples.pods, samples.containers
        if self._mask is not None:
            masks = (self._mask.namespace, self._mask.name, self._mask.name)
            names = (
                [masks[0](each) for each in names[0]],
                [masks[1](each) for each in names[1]],
                [masks[2](each) for each in names[2]],
            )
        return encode_line(dump_lines.USAGE, UsageColumns(*names, samples.times, samples.cpu, samples.memory))

    def history(self, history: History) -> bytes:
        """What one container used over time."""
        self.counts[HISTORY] += len(history)
        if self._mask is not None:
            history = msgspec.structs.replace(
                history,
                namespace=self._mask.namespace(history.namespace),
                pod=self._mask.name(history.pod),
                container=self._mask.name(history.container),
            )
        return encode_line(dump_lines.HISTORY, history)


def _masked(mask: Mask, controller: OwnerReference) -> OwnerReference:
    document = mask.document({"ownerReferences": [msgspec.to_builtins(controller)]})
    return msgspec.convert(document["ownerReferences"][0], OwnerReference)


def _is_figure(value: str) -> bool:
    """Whether the value of a flag is a number, a duration, a quantity or a yes or no, and so no name."""
    return value in ("true", "false") or value[:1].isdecimal()
