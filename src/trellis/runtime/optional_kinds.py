"""Unreadable kinds: kinds that a component has no right to read and works without.

A user who changes upstream's images for ours and keeps upstream's roles has no rule for the kinds
that upstream does not read. A component works without each of them: it reports that once, with the missing rule, and
retries every half a minute or so until the rule is there, without a restart. An API server that has just started
forbids everything for a moment, so a refusal counts only while VPAs are being watched, and only if another one came
before it.

    unreadable = UnreadableKinds(metrics, log)
    optional = OptionalKind("HPAs are not taken into account")
    unreadable.register(HPAS, optional)
    hpas = WatchInformer(client, HPAS, report=partial(unreadable.report, HPAS), ...)
    unreadable.set_essential(vpas)
    await unreadable.wait_for(hpas)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from trellis.base.errors import Forbidden, NotFound
from trellis.kube.resources import Resource
from trellis.kube.watch.incidents import Incident, IncidentKind
from trellis.kube.watch.informer import Informer
from trellis.runtime.telemetry.cluster_metrics import UNREADABLE
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

# How long a kind must be refused until it counts as unreadable. Less than the time from an informer's second attempt to
# its third, so that no caller waits for more than three attempts.
_CONFIRMATION_SECONDS: Final = 1.5

# What to do where the API server does not serve a kind that a component needs.
INSTALL_CRDS: Final = "install its CRD; `trellis crds` prints ours"

_RESOLVED: Final = (IncidentKind.RECOVERED, IncidentKind.GRANTED)
_CONTACT_INCIDENTS: Final = (IncidentKind.TROUBLE, IncidentKind.RECOVERED)


class OptionalKind(msgspec.Struct, frozen=True):
    """What does not work without a kind, as a sentence, and the name of its object if only one is read."""

    consequence: str
    namespace: str = ""
    name: str = ""


class UnreadableKinds:
    """The kinds that one component works without. Use it on the event loop of its informers."""

    def __init__(self, metrics: Metrics, log: Logger) -> None:
        self._metrics = metrics
        self._log = log
        self._essential: Informer[Any] | None = None
        self._optional: dict[str, OptionalKind] = {}
        self._refused_since: dict[str, float] = {}
        self._lacking: dict[str, str] = {}
        self._changed = asyncio.Event()

    def set_essential(self, essential: Informer[Any]) -> None:
        """Count refusals only while this informer is connected."""
        self._essential = essential

    def register(self, resource: Resource[Any], optional: OptionalKind | None = None) -> None:
        """Register a kind. Incidents of a kind that is not optional are only logged."""
        if optional is not None:
            self._optional[resource.full_name] = optional

    def is_lacking(self, informer: Informer[Any]) -> bool:
        """Whether the component currently works without the informer's kind."""
        return informer.resource.full_name in self._lacking

    def is_optional(self, informer: Informer[Any]) -> bool:
        """Whether the component works without the informer's kind."""
        return informer.resource.full_name in self._optional

    def list_unsynced(self, informers: Iterable[Informer[Any]]) -> list[str]:
        """The kinds whose caches have not synced, without unreadable ones."""
        return [
            informer.resource.full_name
            for informer in informers
            if not informer.synced and not self.is_lacking(informer)
        ]

    async def wait_for(self, informer: Informer[Any]) -> None:
        """Return once the cache has synced or the kind is unreadable."""
        if informer.resource.full_name not in self._optional:
            await informer.wait_until_synced()
            return
        synced = asyncio.create_task(informer.wait_until_synced())
        try:
            while not synced.done() and not self.is_lacking(informer):
                changed = asyncio.create_task(self._changed.wait())
                try:
                    await asyncio.wait({synced, changed}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
        finally:
            synced.cancel()

    def remarks(self) -> list[str]:
        """Lines for the response to probes."""
        return [f"{name} not watched: {without}" for name, without in self._lacking.items()]

    def report_installed(self, resource: Resource[Any]) -> None:
        """Log that a missing kind has been installed."""
        self._log.info("an optional kind was installed; watching it", what=resource.full_name)

    def report_removed(self, resource: Resource[Any]) -> None:
        """Log that a kind has been removed."""
        self._log.warning("an optional kind was removed; continuing without it", what=resource.full_name)

    def report(self, resource: Resource[Any], incident: Incident) -> None:
        """Process an incident of an informer of this kind."""
        name = resource.full_name
        if incident.kind is IncidentKind.REFUSED:
            rule = format_missing_rule(resource, OptionalKind(""))
            self._log.warning(
                "RBAC does not allow reading a watched namespace", what=name, lacks=rule, why=incident.message
            )
            return
        if incident.kind is IncidentKind.GRANTED:
            self._refused_since.pop(name, None)
            if self._lacking.pop(name, None) is not None:
                self._metrics.set(UNREADABLE, 0.0, name)
                self._log.info("an optional kind is no longer forbidden; watching it", what=name)
                return
        elif incident.kind in _CONTACT_INCIDENTS and name in self._lacking:
            return
        elif isinstance(incident.error, Forbidden) and name in self._optional:
            if self._is_refusal_confirmed(name, incident.at):
                self._continue_without(resource, self._optional[name])
            else:
                self._log.detail(4, "an optional kind is forbidden; retrying", what=name, why=incident.message)
            return
        if isinstance(incident.error, NotFound):
            self._log.warning(f"the API server does not serve a kind; {INSTALL_CRDS}", what=name, why=incident.message)
            return
        log = self._log.info if incident.kind in _RESOLVED else self._log.warning
        log("watching", what=name, incident=incident.kind.value, why=incident.message)

    def _is_refusal_confirmed(self, name: str, at: float) -> bool:
        if self._essential is None or not self._essential.staleness().connected:
            self._refused_since.pop(name, None)
            return False
        return at - self._refused_since.setdefault(name, at) >= _CONFIRMATION_SECONDS

    def _continue_without(self, resource: Resource[Any], optional: OptionalKind) -> None:
        name = resource.full_name
        self._lacking[name] = optional.consequence
        self._metrics.set(UNREADABLE, 1.0, name)
        rule = format_missing_rule(resource, optional)
        self._log.warning(
            "RBAC does not allow reading an optional kind; continuing without it",
            what=name,
            lacks=rule,
            so=optional.consequence,
        )
        self._changed.set()
        self._changed = asyncio.Event()


def format_missing_rule(resource: Resource[Any], optional: OptionalKind) -> str:
    """The RBAC rule that allows reading a kind, as YAML."""
    named = f", resourceNames: [{optional.name}]" if optional.name else ""
    group = resource.group or '""'
    rule = f"{{apiGroups: [{group}], resources: [{resource.plural}]{named}, verbs: [list, watch]}}"
    return f"{rule} in namespace {optional.namespace}" if optional.namespace else rule
