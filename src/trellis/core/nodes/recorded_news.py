"""How is written down what is new in the cluster? In lines of some objects each, and only what is not written yet.

`NewsWriting` makes lines of news, and `NewsReading` makes of these lines the same news, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from trellis.api.buffer import Buffer
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.slices import Labels
from trellis.api.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.api.kube.workloads import DaemonSet
from trellis.core.fit import Storage
from trellis.core.model.keys import Key
from trellis.core.model.store import Store
from trellis.core.model.succession import Step, step, take
from trellis.core.nodes.news import News
from trellis.core.nodes.recorded_objects import Known, Seen, read_buffer, read_set

K = TypeVar("K", bound=KubeObject)

# Lines of so many objects: all pods of a large cluster in one would be in memory several times.
_MOST: Final = 500


class StorageLine(msgspec.Struct, frozen=True):
    """What became of claims, volumes and classes."""

    claims: Step[PersistentVolumeClaim]
    volumes: Step[PersistentVolume]
    classes: Step[StorageClass]


class NewsLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """Some of what is new."""

    namespaces: dict[str, Labels | None] = {}
    storage: StorageLine | None = None
    nodes: tuple[Seen[Node], ...] = ()
    pods: tuple[Seen[Pod], ...] = ()
    buffers: tuple[Seen[Buffer], ...] = ()
    daemon_sets: tuple[Seen[DaemonSet], ...] = ()


class NewsWriting:
    """Remembers what was written last."""

    def __init__(self) -> None:
        self._nodes: Known[Node] = Known()
        self._pods: Known[Pod] = Known()
        self._buffers: Known[Buffer] = Known()
        self._daemon_sets: Known[DaemonSet] = Known()
        self._storage = Storage()

    def lines(self, news: News) -> Iterator[NewsLine]:
        """What is to be written, in the order in which a snapshot is told."""
        if news.namespaces or news.storage is not None:
            yield NewsLine(news.namespaces, self._stored(news.storage) if news.storage is not None else None)
        for nodes in _pieces(self._nodes.seen(("", name), each) for name, each in news.nodes.items()):
            yield NewsLine(nodes=nodes)
        for pods in _pieces(self._pods.seen(key, each) for key, each in news.pods.items()):
            yield NewsLine(pods=pods)
        for buffers in _pieces(self._buffers.seen(key, read_buffer(each)) for key, each in news.buffers.items()):
            yield NewsLine(buffers=buffers)
        for sets in _pieces(self._daemon_sets.seen(key, read_set(each)) for key, each in news.daemon_sets.items()):
            yield NewsLine(daemon_sets=sets)

    def _stored(self, now: Storage) -> StorageLine:
        before, self._storage = self._storage, now
        return StorageLine(
            step(before.claims, now.claims),
            step(_by_key(before.volumes), _by_key(now.volumes)),
            step(_by_key(before.classes), _by_key(now.classes)),
        )


class NewsReading:
    """Knows what was read last."""

    def __init__(self) -> None:
        self._nodes: Known[Node] = Known()
        self._pods: Known[Pod] = Known()
        self._buffers: Known[Buffer] = Known()
        self._daemon_sets: Known[DaemonSet] = Known()
        self._claims: Store[PersistentVolumeClaim] = Store()
        self._volumes: Store[PersistentVolume] = Store()
        self._classes: Store[StorageClass] = Store()

    def news(self, line: NewsLine) -> News:
        """What was new; raises `InvalidRecording`."""
        return News(
            namespaces=line.namespaces,
            nodes={each.key[1]: self._nodes.found(each) for each in line.nodes},
            pods={each.key: self._pods.found(each) for each in line.pods},
            buffers={each.key: self._buffers.found(each) for each in line.buffers},
            daemon_sets={each.key: self._daemon_sets.found(each) for each in line.daemon_sets},
            storage=self._stored(line.storage) if line.storage is not None else None,
        )

    def _stored(self, line: StorageLine) -> Storage:
        take(self._claims, line.claims.gone, line.claims.put)
        take(self._volumes, line.volumes.gone, line.volumes.put)
        take(self._classes, line.classes.gone, line.classes.put)
        return Storage(
            claims=self._claims.snapshot().objects,
            volumes={each.metadata.name: each for each in self._volumes.snapshot()},
            classes={each.metadata.name: each for each in self._classes.snapshot()},
        )


def _by_key(named: Mapping[str, K]) -> dict[Key, K]:
    return {("", name): each for name, each in named.items()}


def _pieces(found: Iterable[Seen[Any]]) -> Iterator[tuple[Seen[Any], ...]]:
    rest = iter(found)
    while piece := tuple(islice(rest, _MOST)):
        yield piece
