"""Kinds that components coordinate by: Lease, Event, Namespace and ConfigMap."""

from __future__ import annotations

from trellis.api.kube.meta import KubeObject, ObjectReference
from trellis.api.kube.slices import NOTHING, Labels, Slice, Time


class LeaseSpec(Slice, frozen=True):
    """Who holds a lease and since when; it has run out `lease_duration_seconds` after `renew_time`."""

    holder_identity: str = ""
    lease_duration_seconds: int | None = None
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: int = 0


class Lease(KubeObject, frozen=True):
    """A lease."""

    spec: LeaseSpec = LeaseSpec()


class EventSource(Slice, frozen=True):
    """The reporter of an Event."""

    component: str = ""
    host: str = ""


class Event(KubeObject, frozen=True):
    """A core/v1 Event.

    Older writers set `count` and the two timestamps; writers of events.k8s.io set `event_time` and leave
    those null.
    """

    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    count: int = 0
    type: str = ""
    event_time: Time | None = None
    reporting_component: str = ""


class NamespaceStatus(Slice, frozen=True):
    """`phase` is Active or Terminating."""

    phase: str = ""


class Namespace(KubeObject, frozen=True):
    """A namespace."""

    status: NamespaceStatus = NamespaceStatus()


class ConfigMap(KubeObject, frozen=True):
    """A ConfigMap without its binary data."""

    data: Labels = NOTHING
