"""Unreadable kinds: those that a component may not read, and goes on without.

A user who changes upstream's images for ours and keeps upstream's roles has no rule for the kinds
that upstream does not read. A component works without each of them: it reports that once, with the missing rule, and
retries every half a minute or so until the rule is there, without a restart. An API server that has just started
forbids everything for a moment, so a refusal counts only while VPAs are being watched, and only if another one came
before it.

    unreadable = UnreadableKinds(metrics, log)
    optional = OptionalKind("HPAs are not taken into account")
    unreadable.expect(HPAS, optional)
    hpas = Informer(client, HPAS, report=partial(unreadable.report, HPAS), ...)
    unreadable.after(vpas)
    await unreadable.wait_for(hpas)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from trellis.base.errors import Forbidden
from trellis.kube.resources import Resource
from trellis.kube.watch.incidents import Incident, IncidentKind
from trellis.kube.watch.informer import Informer
from trellis.runtime.telemetry.cluster_metrics import UNREADABLE
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

# Between the first refusal that counts and the one that is believed. Less than between an informer's second attempt and
# its third, so that no caller waits for more than three attempts.
_SURE_SECONDS: Final = 1.5

_GOOD: Final = (IncidentKind.RECOVERED, IncidentKind.GRANTED)
_ABOUT_CONTACT: Final = (IncidentKind.TROUBLE, IncidentKind.RECOVERED)


class OptionalKind(msgspec.Struct, frozen=True):
    """What does not work without a kind, as a sentence, and the one object of it that is read if it is only one."""

    without: str
    namespace: str = ""
    name: str = ""


class UnreadableKinds:
    """Which kinds one component goes on without. To be used on the event loop of its informers."""

    def __init__(self, metrics: Metrics, log: Logger) -> None:
        self._metrics = metrics
        self._log = log
        self._essential: Informer[Any] | None = None
        self._dispensable: dict[str, OptionalKind] = {}
        self._refused: dict[str, float] = {}
        self._lacking: dict[str, str] = {}
        self._changed = asyncio.Event()

    def after(self, essential: Informer[Any]) -> None:
        """Believe no refusal before this one is being watched."""
        self._essential = essential

    def expect(self, resource: Resource[Any], dispensable: OptionalKind | None = None) -> None:
        """Follow a kind. Incidents of one that is not dispensable are only logged."""
        if dispensable is not None:
            self._dispensable[resource.full_name] = dispensable

    def is_lacking(self, informer: Informer[Any]) -> bool:
        """Whether the component goes on without it at the moment."""
        return informer.resource.full_name in self._lacking

    def not_yet_seen(self, informers: Iterable[Informer[Any]]) -> list[str]:
        """The kinds whose caches have not synced, without those that are lacking."""
        return [
            informer.resource.full_name
            for informer in informers
            if not informer.synced and not self.is_lacking(informer)
        ]

    async def wait_for(self, informer: Informer[Any]) -> None:
        """Return once the cache has synced, or the kind is lacking."""
        if informer.resource.full_name not in self._dispensable:
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
        """What probes are told of it, each as a line."""
        return [f"{name} unseen: {without}" for name, without in self._lacking.items()]

    def came(self, resource: Resource[Any]) -> None:
        """A kind that was not there has been installed."""
        self._log.info("a kind has been installed and is seen from now on", what=resource.full_name)

    def went(self, resource: Resource[Any]) -> None:
        """A kind that was there has been removed."""
        self._log.warning("going on without a kind that has been removed", what=resource.full_name)

    def report(self, resource: Resource[Any], incident: Incident) -> None:
        """Note an incident of an informer of this kind."""
        name = resource.full_name
        if incident.kind is IncidentKind.GRANTED:
            self._refused.pop(name, None)
            if self._lacking.pop(name, None) is not None:
                self._metrics.set(UNREADABLE, 0.0, name)
                self._log.info("a kind that could not be read is seen from now on", what=name)
                return
        elif incident.kind in _ABOUT_CONTACT and name in self._lacking:
            return
        elif isinstance(incident.error, Forbidden) and name in self._dispensable:
            if self._is_refused_for_good(name, incident.at):
                self._do_without(resource, self._dispensable[name])
            else:
                self._log.detail(4, "a kind is refused for now", what=name, why=incident.message)
            return
        log = self._log.info if incident.kind in _GOOD else self._log.warning
        log("watching", what=name, incident=incident.kind.value, why=incident.message)

    def _is_refused_for_good(self, name: str, at: float) -> bool:
        if self._essential is None or not self._essential.staleness().connected:
            self._refused.pop(name, None)
            return False
        return at - self._refused.setdefault(name, at) >= _SURE_SECONDS

    def _do_without(self, resource: Resource[Any], dispensable: OptionalKind) -> None:
        name = resource.full_name
        self._lacking[name] = dispensable.without
        self._metrics.set(UNREADABLE, 1.0, name)
        rule = rule_for(resource, dispensable)
        self._log.warning("going on without a kind that may not be read", what=name, lacks=rule, so=dispensable.without)
        self._changed.set()
        self._changed = asyncio.Event()


def rule_for(resource: Resource[Any], dispensable: OptionalKind) -> str:
    """The rule that lets a role read a kind, as YAML has it."""
    named = f", resourceNames: [{dispensable.name}]" if dispensable.name else ""
    group = resource.group or '""'
    rule = f"{{apiGroups: [{group}], resources: [{resource.plural}]{named}, verbs: [get, list, watch]}}"
    return f"{rule} in namespace {dispensable.namespace}" if dispensable.namespace else rule
