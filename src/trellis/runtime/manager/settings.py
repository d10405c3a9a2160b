"""The settings of a process of several components, and which components it runs.

A setting that all components share has a plain flag, such as `--read-only`; a setting of one component has the name of
the component in front, such as `--updater.min-replicas`. A shared setting can be set for one component too:
`--updater.read-only`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final

from trellis.base.durations import Duration
from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name
from trellis.runtime.settings.component import AccessSettings, ElectionSettings, ScopeSettings
from trellis.runtime.settings.declarations import Reload, Setting, Settings
from trellis.runtime.telemetry.health_server import HealthSettings
from trellis.runtime.telemetry.logs import LogSettings

RECOMMENDER: Final = "recommender"
ADMISSION: Final = "admission"
UPDATER: Final = "updater"
HVPA: Final = "hvpa"
BUFFERS: Final = "buffers"
NODES: Final = "nodes"

COMPONENTS: Final = (RECOMMENDER, ADMISSION, UPDATER, HVPA, BUFFERS, NODES)
ALL: Final = "all"
# Names for several components: those that replace upstream's VPA, and all.
PRESETS: Final = {"drop-in": (RECOMMENDER, ADMISSION, UPDATER), ALL: COMPONENTS}

_EXCLUDE: Final = "-"


def choose_components(words: Sequence[str]) -> tuple[str, ...]:
    """The components that these words name, in the usual order: names, presets, and `-name` to leave one out.

    Words that only leave out begin with all components.
    """
    chosen = set(COMPONENTS if words and all(word.startswith(_EXCLUDE) for word in words) else ())
    for word in words:
        name = word.removeprefix(_EXCLUDE)
        named = PRESETS.get(name, (name,))
        if not set(named) <= set(COMPONENTS):
            known = (*COMPONENTS, *PRESETS)
            guess = suggest_name(name, known)
            hint = f" (did you mean {guess}?)" if guess else ""
            raise InvalidInput(word, f"is not a component{hint}; use {', '.join(known)}, or -name to leave one out")
        chosen = chosen - set(named) if word.startswith(_EXCLUDE) else chosen | set(named)
    if not chosen:
        raise InvalidInput(",".join(words), "leaves no component to run")
    return tuple(name for name in COMPONENTS if name in chosen)


def _check_components(words: tuple[str, ...]) -> str | None:
    try:
        choose_components(words)
    except InvalidInput as error:
        return f"{error.value} {error.rule}" if error.value else str(error.rule)
    return None


class ComponentChoice(Settings, frozen=True):
    """Components that run in the process."""

    title: ClassVar[str] = "Components"
    of_process: ClassVar[bool] = True
    reload: ClassVar[Reload | None] = Reload.RESTART_OF_PROCESS

    components: Annotated[
        tuple[str, ...],
        Setting(
            "Components to run: recommender, admission, updater, hvpa, buffers, nodes; `drop-in` for the first three, "
            "`all`, and `-nodes` to leave one out.",
            why="All: a small cluster needs one process.",
            check=_check_components,
        ),
    ] = (ALL,)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The names of the components to run."""
        return choose_components(self.components)


class SpreadSettings(Settings, frozen=True):
    """How several replicas of the process divide the components."""

    title: ClassVar[str] = "Replicas"
    of_process: ClassVar[bool] = True

    spread_leaders: Annotated[
        bool,
        Setting(
            "Spread the leaders of components evenly over the replicas, and hand them over when replicas come.",
            why="On: otherwise the first replica leads all components. Needs the right to list and watch Leases in "
            "their namespace; without it, leaders stay where they are.",
        ),
    ] = True


# Shorter than upstream's 15 s: another replica then leads within 15 s of a kill, with the time that it needs to start.
_LEASE_DURATION: Final = Duration.from_seconds(12)


class ProcessSettings(Settings, frozen=True):
    """Settings that the components of a process share."""

    title: ClassVar[str] = "Shared settings"
    most_used: ClassVar[tuple[str, ...]] = (
        "components",
        "leader-elect",
        "leader-elect-resource-namespace",
        "vpa-object-namespace",
        "ignored-vpa-object-namespaces",
        "feature-gates",
        "read-only",
        "kubeconfig",
        "address",
        "v",
    )

    choice: ComponentChoice = ComponentChoice()
    access: AccessSettings = AccessSettings()
    scope: ScopeSettings = ScopeSettings()
    # On, unlike in a process of one component, which follows upstream: a second replica is then safe at any time.
    election: ElectionSettings = ElectionSettings(leader_elect=True, leader_elect_lease_duration=_LEASE_DURATION)
    spread: SpreadSettings = SpreadSettings()
    health: HealthSettings = HealthSettings()
    logs: LogSettings = LogSettings()
