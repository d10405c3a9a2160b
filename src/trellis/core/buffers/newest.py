"""Which pod stands for all pods of a target? The newest that lives: it is what the target makes now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Protocol, TypeVar

_FINISHED: Final = ("Succeeded", "Failed")
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class _Metadata(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def creation_timestamp(self) -> datetime | None: ...
    @property
    def deletion_timestamp(self) -> datetime | None: ...


class _Status(Protocol):
    @property
    def phase(self) -> str: ...


class AnyPod(Protocol):
    """A pod in whatever slice somebody keeps."""

    @property
    def metadata(self) -> _Metadata:
        """Its name, and when it was made and deleted."""

    @property
    def status(self) -> _Status:
        """How far it is."""


P = TypeVar("P", bound=AnyPod)


def is_live(pod: AnyPod) -> bool:
    """Whether a pod is neither finished nor being deleted."""
    return pod.status.phase not in _FINISHED and pod.metadata.deletion_timestamp is None


def newest_live(pods: Iterable[P]) -> P | None:
    """The newest of the pods that a target selects; of equally new ones the last by name, so that all agree."""
    live = [pod for pod in pods if is_live(pod)]
    return max(live, key=lambda pod: (pod.metadata.creation_timestamp or _LONG_AGO, pod.metadata.name), default=None)
