"""Settings of the components of a dumped cluster, as far as their flags were collected.

A flag that cannot be read stands for its default, and is named.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from trellis.api.feature_gates import FeatureGates
from trellis.base.durations import parse_duration
from trellis.base.errors import InvalidInput
from trellis.core.buffers import BufferSettings
from trellis.core.cluster.state import ClusterState
from trellis.core.explain.component_decisions.settings import CollectedSettings
from trellis.core.recommend.registry import read_presets
from trellis.sim.components.settings import FLAGS, read_flags

_GATES: Final = {"CPUStartupBoost": "cpu_startup_boost", "InPlace": "in_place", "PerVPAConfig": "per_vpa_config"}
_SERVER: Final = re.compile(r"v?(\d+)\.(\d+)")
# From this version on a memory limit may be lowered without a restart.
_LOWERS_MEMORY_LIMITS: Final = (1, 34)
_NEWEST: Final = (99, 0)
_BUFFERS: Final = "buffers"
_HVPA: Final = "hvpa"
_OTHERS: Final = (_BUFFERS, "nodes")
# The settings that the node autoscaler reads.
_NODE_SETTINGS: Final = ("up", "down")
_PATIENCE: Final = "ready-patience"


def read_components(collected: ClusterState) -> CollectedSettings:
    """The settings by the flags of components, and what the API server supports."""
    flags = _flags(collected)
    readable, problems = select_readable_flags(collected)
    settings, gates = read_flags(readable), _gates(flags.get("feature-gates", ""))
    about = collected.about
    names = tuple(name for name in flags.get("recommender-name", "").split(",") if name)
    buffers, buffer_problems = _buffers(collected)
    presets, preset_problems = _presets(flags.get("set", ""), names or ("default",))
    standard = CollectedSettings()
    namespace, name = _find_admission_lease(collected)
    return CollectedSettings(
        usage=settings.usage,
        estimates=settings.estimates,
        pipeline=settings.pipeline,
        updates=msgspec.structs.replace(
            settings.updates,
            resizes=about.resizes_pods,
            lowers_memory_limits=_version(about.server) >= _LOWERS_MEMORY_LIMITS,
            in_place=gates.in_place,
            startup_boost=gates.cpu_startup_boost,
            per_vpa_config=gates.per_vpa_config,
        ),
        boosts=msgspec.structs.replace(settings.boosts, enabled=gates.cpu_startup_boost and about.resizes_pods),
        buffers=buffers,
        hvpas=settings.hvpas,
        gates=gates,
        names=names,
        presets=presets,
        heeds_admission=settings.admission.is_heeded,
        admission_lease=(
            flags.get("admission-controller-status-lease-namespace", namespace),
            flags.get("admission-controller-status-lease-name", name),
        ),
        admission_timeout=_seconds(
            flags.get("admission-controller-status-lease-timeout", ""), standard.admission_timeout
        ),
        with_flags=tuple(component.component for component in collected.components),
        problems=(*problems, *preset_problems, *buffer_problems),
    )


def _find_admission_lease(collected: ClusterState) -> tuple[str, str]:
    """The status Lease of the admission controller; with the manifests, it is in the namespace of the updater."""
    namespace, name = CollectedSettings().admission_lease
    updater = collected.component("updater")
    if updater is not None and collected.leases.get(updater.namespace, name) is not None:
        namespace = updater.namespace
    return namespace, name


def with_ready_patience(components: CollectedSettings, text: str) -> CollectedSettings:
    """The settings with another patience of the Hvpa controller; raises `InvalidInput`."""
    try:
        hvpas = read_flags({_PATIENCE: text}).hvpas
    except InvalidInput as error:
        raise InvalidInput(text, f"flag --{_PATIENCE}: {error.rule.removeprefix(_PATIENCE).strip()}") from error
    return msgspec.structs.replace(components, hvpas=hvpas, with_flags=(*components.with_flags, _HVPA))


def select_readable_flags(collected: ClusterState) -> tuple[dict[str, str], list[str]]:
    """Flags of components that change a decision and can be read, and the problems of those that cannot."""
    readable: dict[str, str] = {}
    problems: list[str] = []
    for name, value in _flags(collected).items():
        if name not in FLAGS:
            continue
        try:
            read_flags({name: value})
            readable[name] = value
        except InvalidInput as error:
            problems.append(f"--{name}: {error}")
    return readable, problems


def select_simulated_flags(collected: ClusterState) -> dict[str, str]:
    """The flags for simulations of a cluster: with those of the node autoscaler, without those that cannot be read."""
    flags, _ = select_readable_flags(collected)
    component = collected.component("nodes")
    for name, value in component.flags.items() if component is not None else ():
        if name in FLAGS and FLAGS[name][0] in _NODE_SETTINGS:
            try:
                read_flags({name: value})
            except InvalidInput:
                continue
            flags[name] = value
    return flags


def _flags(collected: ClusterState) -> dict[str, str]:
    """The flags of the components that size or count pods; other components have flags of the same names."""
    sizing = (component for component in collected.components if component.component not in _OTHERS)
    return {name: value for component in sizing for name, value in component.flags.items()}


def _buffers(collected: ClusterState) -> tuple[BufferSettings, list[str]]:
    component = collected.component(_BUFFERS)
    flags = component.flags if component is not None else {}
    standard, problems = BufferSettings(), []
    most = flags.get("max-chunks-per-buffer", "")
    if most and not most.isdecimal():
        problems.append(f'--max-chunks-per-buffer: "{most}" is not a number')
    labels = dict(part.split("=", 1) for part in _parts(flags.get("node-class-labels", "")) if "=" in part)
    settings = BufferSettings(
        most_chunks=int(most) if most.isdecimal() else standard.most_chunks,
        node_class_labels=labels or standard.node_class_labels,
        set_aside=frozenset(_parts(flags.get("set-aside-target-kinds", ""))),
    )
    return settings, problems


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _gates(text: str) -> FeatureGates:
    gates = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    changed = {_GATES[name]: value.lower() == "true" for name, value in gates.items() if name in _GATES}
    return msgspec.structs.replace(FeatureGates(), **changed)


def _presets(text: str, names: tuple[str, ...]) -> tuple[dict[str, dict[str, str]], list[str]]:
    try:
        return read_presets([part for part in text.split(",") if part], names), []
    except InvalidInput as error:
        return {}, [f"--set: {error}"]


def _seconds(text: str, default: float) -> float:
    try:
        return parse_duration(text).total_seconds() if text else default
    except InvalidInput:
        return default


def _version(server: str) -> tuple[int, int]:
    """The version of the API server; without one it is taken for a new one."""
    result = _SERVER.match(server)
    return (int(result[1]), int(result[2])) if result else _NEWEST
