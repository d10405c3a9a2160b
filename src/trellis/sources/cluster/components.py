"""Finds the components of an autoscaler by their Deployments: the image, and the flags without secrets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeAlias

from trellis.api.kube.coordination import ConfigMap
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.slices import Slice
from trellis.base.errors import InvalidInput, KubeError, UnreadableObject
from trellis.core.cluster.dump_format import DumpedComponent
from trellis.kube.client import Client
from trellis.kube.resources import CONFIG_MAPS, DEPLOYMENTS, Resource
from trellis.runtime.manager.settings import ADMISSION, ALL, choose_components
from trellis.sources.cluster.component_flags import CommandContainer, ConfigVolume, read_flags, select_flags

# The default of flags, and where upstream's components and those of the preset `drop-in` are.
NAMESPACE: Final = "kube-system"
# Where components are looked for by a user who may not read all namespaces; the other presets have the second one.
NAMESPACES: Final = (NAMESPACE, "trellis-system")
LEASES: Final = ("vpa-recommender-lease", "vpa-recommender", "vpa-updater", "vpa-admission-controller")

_ADMISSION_COMMAND: Final = "admission-controller"
_COMPONENTS: Final = {
    "recommender": "recommender",
    "updater": "updater",
    _ADMISSION_COMMAND: _ADMISSION_COMMAND,
    "admission": _ADMISSION_COMMAND,
    "buffers": "buffers",
    "nodes": "nodes",
    "hvpa": "hvpa",
}
# Names of components that other programs use as well.
_OURS: Final = "trellis"
_COMMON_WORDS: Final = frozenset({"nodes", "hvpa"})
_RUN: Final = "run"


class _CommandPodSpec(Slice, frozen=True):
    containers: tuple[CommandContainer, ...] = ()
    volumes: tuple[ConfigVolume, ...] = ()


class _CommandTemplate(Slice, frozen=True):
    spec: _CommandPodSpec = _CommandPodSpec()


class _CommandDeploymentSpec(Slice, frozen=True):
    replicas: int | None = None
    template: _CommandTemplate = _CommandTemplate()


class ComponentDeployment(KubeObject, frozen=True):
    """A Deployment with the commands of its containers, which no other slice has."""

    spec: _CommandDeploymentSpec = _CommandDeploymentSpec()


COMPONENT_DEPLOYMENTS: Final[Resource[ComponentDeployment]] = DEPLOYMENTS.read_as(ComponentDeployment)

# Reads a ConfigMap by its namespace and name; None if there is none, or if it may not be read.
ReadConfiguration: TypeAlias = Callable[[str, str], Awaitable[ConfigMap | None]]


async def read_config_map(client: Client, namespace: str, name: str) -> ConfigMap | None:
    """A ConfigMap of a component; None if there is none, or if it may not be read."""
    try:
        return await client.get(CONFIG_MAPS, name, namespace)
    except (KubeError, UnreadableObject):
        return None


async def find_components(
    deployments: Iterable[ComponentDeployment], read: ReadConfiguration
) -> tuple[DumpedComponent, ...]:
    """The components of an autoscaler that Deployments run, upstream's included; those of one process are apart."""
    components: list[DumpedComponent] = []
    for deployment in deployments:
        namespace, name = deployment.metadata.namespace, deployment.metadata.name
        pod = deployment.spec.template.spec
        for container in pod.containers:
            is_process = runs_several(container)
            component = "" if is_process else find_component(container.words, container.image)
            if not component and not is_process:
                continue
            flags = await read_flags(container, pod.volumes, partial(read, namespace))
            replicas = 1 if deployment.spec.replicas is None else deployment.spec.replicas
            components += [
                DumpedComponent(command, namespace, name, container.image, replicas, own)
                for command, own in ([(component, flags)] if component else _divide_flags(flags))
            ]
    return tuple(components)


def _divide_flags(flags: Mapping[str, str]) -> list[tuple[str, Mapping[str, str]]]:
    """The command of each component of a process, with the flags that it would have."""
    return [
        (_ADMISSION_COMMAND if component == ADMISSION else component, select_flags(flags, component))
        for component in choose_running(flags)
    ]


def runs_several(container: CommandContainer) -> bool:
    """Whether it is `trellis run`, by its command or, with the program in the image, by its arguments."""
    words = [word.rpartition("/")[2] for word in container.words]
    program = find_image_name(container.image) == _OURS and not container.command
    return (program and words[:1] == [_RUN]) or (_OURS in words and words[words.index(_OURS) + 1 :][:1] == [_RUN])


def choose_running(flags: Mapping[str, str]) -> tuple[str, ...]:
    """The components of `trellis run` with these flags; all by default."""
    words = [word.strip() for word in flags.get("components", "").split(",") if word.strip()]
    try:
        return choose_components(words or [ALL])
    except InvalidInput:
        return choose_components([ALL])


def find_component(words: tuple[str, ...], image: str) -> str:
    """The component by its command (`trellis updater` or `/updater`), else by its image (`vpa-updater`)."""
    previous = ""
    for word in words:
        component = _COMPONENTS.get(word.rpartition("/")[2], "")
        if component and (component not in _COMMON_WORDS or previous == _OURS):
            return component
        previous = word.rpartition("/")[2]
    base = find_image_name(image)
    return _COMPONENTS.get(base.removeprefix("vpa-"), "") if base.startswith("vpa-") else ""


def find_image_name(image: str) -> str:
    """The name of an image, without registry, tag and digest."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]
