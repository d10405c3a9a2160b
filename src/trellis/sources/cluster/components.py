"""How do the components of an autoscaler run here? By their Deployments: the image, and the flags without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.slices import Slice
from trellis.core.model.dump_lines import Component
from trellis.kube.resources import DEPLOYMENTS, Resource

NAMESPACE: Final = "kube-system"
LEASES: Final = ("vpa-recommender-lease", "vpa-recommender", "vpa-updater", "vpa-admission-controller")

_COMPONENTS: Final = {
    "recommender": "recommender",
    "updater": "updater",
    "admission-controller": "admission-controller",
    "admission": "admission-controller",
    "buffers": "buffers",
    "nodes": "nodes",
    "hvpa": "hvpa",
}
# What these are called are words that others use as well.
_OURS: Final = "trellis"
_COMMON_WORDS: Final = frozenset({"nodes", "hvpa"})
# Whatever a flag of such a name says is nobody's business.
_SECRET: Final = re.compile("token|passw|secret|credential|header|user|auth|key|cert", re.IGNORECASE)
_FLAG: Final = re.compile(r"--?([A-Za-z0-9][A-Za-z0-9._-]*)(?:=(.*))?", re.DOTALL)


class _Container(Slice, frozen=True):
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class _PodSpec(Slice, frozen=True):
    containers: tuple[_Container, ...] = ()


class _Template(Slice, frozen=True):
    spec: _PodSpec = _PodSpec()


class _Spec(Slice, frozen=True):
    replicas: int | None = None
    template: _Template = _Template()


class Running(KubeObject, frozen=True):
    """A Deployment with the commands of its containers, which no other slice has."""

    spec: _Spec = _Spec()


RUNNING: Final[Resource[Running]] = DEPLOYMENTS.read_as(Running)


def components_in(deployments: Iterable[Running]) -> Iterator[Component]:
    """Those that are components, upstream's included."""
    for each in deployments:
        for container in each.spec.template.spec.containers:
            words = (*container.command, *container.args)
            component = _component(words, container.image)
            if component:
                replicas = 1 if each.spec.replicas is None else each.spec.replicas
                namespace, name = each.metadata.namespace, each.metadata.name
                yield Component(component, namespace, name, container.image, replicas, flags_in(words))


def flags_in(words: Iterable[str]) -> Mapping[str, str]:
    """Flags by name, without those that may be secret; one without a value says `true`."""
    flags: dict[str, str] = {}
    last = ""
    for word in words:
        found = _FLAG.fullmatch(word)
        if found:
            last = found[1] if found[2] is None else ""
            flags[found[1]] = "true" if found[2] is None else found[2]
        elif last:
            flags[last], last = word, ""
    return {name: _without_login(value) for name, value in flags.items() if not _SECRET.search(name)}


def _component(words: tuple[str, ...], image: str) -> str:
    """What its command says, `trellis updater` or `/updater`; else what its image is called, `vpa-updater`."""
    before = ""
    for word in words:
        named = _COMPONENTS.get(word.rpartition("/")[2], "")
        if named and (named not in _COMMON_WORDS or before == _OURS):
            return named
        before = word.rpartition("/")[2]
    base = image.rpartition("/")[2].partition("@")[0].partition(":")[0]
    return _COMPONENTS.get(base.removeprefix("vpa-"), "") if base.startswith("vpa-") else ""


def _without_login(value: str) -> str:
    """An address without the name and password that may be written into it."""
    if "://" not in value or "@" not in value:
        return value
    try:
        address = urlsplit(value)
    except ValueError:
        return ""
    return urlunsplit(address._replace(netloc=address.netloc.rpartition("@")[2]))
