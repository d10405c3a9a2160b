"""Which components and processes an installation has, as conditions over its values."""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.install.tree.nodes import (
    Contains,
    Equals,
    Expression,
    Named,
    Not,
    OneOf,
    Value,
    all_of,
    any_of,
)
from trellis.install.values.declarations import ADVISOR, DROP_IN, FULL, READ_ONLY, SEPARATE, SHARED, SINGLE
from trellis.runtime.manager.settings import ADMISSION, BUFFERS, COMPONENTS, HVPA, NODES, RECOMMENDER, UPDATER

_PRESETS_OF_COMPONENT: Final = {
    RECOMMENDER: (DROP_IN, FULL, READ_ONLY),
    ADMISSION: (DROP_IN, FULL),
    UPDATER: (DROP_IN, FULL, READ_ONLY),
    HVPA: (FULL, READ_ONLY),
    BUFFERS: (FULL, READ_ONLY),
    NODES: (FULL, READ_ONLY),
}

ADVISES: Final = Equals(Value("preset"), ADVISOR)
# The controllers beside the recommender write nothing.
READS_ONLY: Final = Equals(Value("preset"), READ_ONLY)

_UNSET: Final = Not(Value("processes"))
IS_SEPARATE: Final = Named(
    "isSeparate",
    any_of(Equals(Value("processes"), SEPARATE), all_of(_UNSET, Equals(Value("preset"), DROP_IN))),
)
IS_SINGLE: Final = Equals(Value("processes"), SINGLE)
IS_SHARED: Final = any_of(Equals(Value("processes"), SHARED), all_of(_UNSET, Not(Equals(Value("preset"), DROP_IN))))


def runs(component: str) -> Expression:
    """Whether a component is installed. The node autoscaler does nothing without a provider."""
    of_preset = all_of(Not(Value("components")), OneOf(Value("preset"), _PRESETS_OF_COMPONENT[component]))
    if component == NODES:
        of_preset = all_of(of_preset, Value("nodes.cloudProviders"))
    return Named(f"runs.{component}", any_of(Contains(Value("components"), component), of_preset))


class Process(msgspec.Struct, frozen=True):
    """A Deployment: its name, its container, its port for probes and metrics, and when it is installed.

    `values` is the path of its own values. One with several components has no `component`.
    """

    name: str
    container: str
    port: int
    values: str
    installed: Expression
    component: str = ""

    @property
    def label(self) -> str:
        """The component that its pods are labelled with."""
        return self.component or "controllers"


# Upstream's names, where the component takes upstream's place.
_NAMES: Final = {
    RECOMMENDER: ("vpa-recommender", "recommender", 8942),
    ADMISSION: ("vpa-admission-controller", "admission-controller", 8944),
    UPDATER: ("vpa-updater", "updater", 8943),
    HVPA: ("trellis-hvpa", "hvpa", 8945),
    BUFFERS: ("trellis-buffers", "buffers", 8946),
    NODES: ("trellis-nodes", "nodes", 8947),
}
_SHARING: Final = tuple(component for component in COMPONENTS if component != ADMISSION)


def _separate_process(component: str) -> Process:
    name, container, port = _NAMES[component]
    condition = Not(IS_SINGLE) if component == ADMISSION else IS_SEPARATE
    return Process(
        name=name,
        container=container,
        port=port,
        values=component,
        installed=all_of(condition, runs(component)),
        component=component,
    )


# The server of node providers is no component of `trellis run`.
SERVES_NODE_GROUPS: Final = all_of(Value("nodeProviderServer.enabled"), Not(ADVISES))
NODE_PROVIDER_SERVER: Final = Process(
    name="trellis-node-provider-server",
    container="node-provider-server",
    port=8948,
    values="nodeProviderServer",
    installed=SERVES_NODE_GROUPS,
    component="node-provider-server",
)

CONTROLLERS: Final = Process(
    name="trellis",
    container="trellis",
    port=8940,
    values="controllers",
    installed=Named(
        "runs.controllers",
        any_of(
            all_of(IS_SHARED, any_of(*(runs(component) for component in _SHARING))),
            all_of(IS_SINGLE, any_of(*(runs(component) for component in COMPONENTS))),
        ),
    ),
)
PROCESSES: Final = (
    CONTROLLERS,
    *(_separate_process(component) for component in COMPONENTS),
    NODE_PROVIDER_SERVER,
)


def find_process(component: str) -> Process:
    """The Deployment that a component has if it is separate."""
    return next(process for process in PROCESSES if process.component == component)
