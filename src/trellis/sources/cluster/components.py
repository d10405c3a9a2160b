"""Finds the components of an autoscaler by their Deployments: the image, and the flags without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.slices import Slice
from trellis.core.cluster.dump_format import DumpedComponent
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
# Names of components that other programs use as well.
_OURS: Final = "trellis"
_COMMON_WORDS: Final = frozenset({"nodes", "hvpa"})
# Flags whose names match may hold secrets, and are left out.
_SECRET: Final = re.compile("token|passw|secret|credential|header|user|auth|key|cert", re.IGNORECASE)
_FLAG: Final = re.compile(r"--?([A-Za-z0-9][A-Za-z0-9._-]*)(?:=(.*))?", re.DOTALL)


class _CommandContainer(Slice, frozen=True):
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class _CommandPodSpec(Slice, frozen=True):
    containers: tuple[_CommandContainer, ...] = ()


class _CommandTemplate(Slice, frozen=True):
    spec: _CommandPodSpec = _CommandPodSpec()


class _CommandDeploymentSpec(Slice, frozen=True):
    replicas: int | None = None
    template: _CommandTemplate = _CommandTemplate()


class ComponentDeployment(KubeObject, frozen=True):
    """A Deployment with the commands of its containers, which no other slice has."""

    spec: _CommandDeploymentSpec = _CommandDeploymentSpec()


COMPONENT_DEPLOYMENTS: Final[Resource[ComponentDeployment]] = DEPLOYMENTS.read_as(ComponentDeployment)


def find_components(deployments: Iterable[ComponentDeployment]) -> Iterator[DumpedComponent]:
    """The Deployments that run components of an autoscaler, upstream's included."""
    for deployment in deployments:
        for container in deployment.spec.template.spec.containers:
            words = (*container.command, *container.args)
            component = _find_component(words, container.image)
            if component:
                replicas = 1 if deployment.spec.replicas is None else deployment.spec.replicas
                namespace, name = deployment.metadata.namespace, deployment.metadata.name
                yield DumpedComponent(component, namespace, name, container.image, replicas, parse_flags(words))


def parse_flags(words: Iterable[str]) -> Mapping[str, str]:
    """Flags by name, without those that may be secret; one without a value says `true`."""
    flags: dict[str, str] = {}
    last = ""
    for word in words:
        flag = _FLAG.fullmatch(word)
        if flag:
            last = flag[1] if flag[2] is None else ""
            flags[flag[1]] = "true" if flag[2] is None else flag[2]
        elif last:
            flags[last], last = word, ""
    return {name: _strip_login(value) for name, value in flags.items() if not _SECRET.search(name)}


def _find_component(words: tuple[str, ...], image: str) -> str:
    """The component by its command (`trellis updater` or `/updater`), else by its image (`vpa-updater`)."""
    previous = ""
    for word in words:
        component = _COMPONENTS.get(word.rpartition("/")[2], "")
        if component and (component not in _COMMON_WORDS or previous == _OURS):
            return component
        previous = word.rpartition("/")[2]
    base = image.rpartition("/")[2].partition("@")[0].partition(":")[0]
    return _COMPONENTS.get(base.removeprefix("vpa-"), "") if base.startswith("vpa-") else ""


def _strip_login(value: str) -> str:
    """An address without the name and password that may be written into it."""
    if "://" not in value or "@" not in value:
        return value
    try:
        address = urlsplit(value)
    except ValueError:
        return ""
    return urlunsplit(address._replace(netloc=address.netloc.rpartition("@")[2]))
