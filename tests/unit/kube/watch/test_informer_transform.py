"""An informer keeps what it is told to keep of an object, and still ends with the server's state."""

from __future__ import annotations

import asyncio

import msgspec

from support import virtual_time
from support.api_server.server import ModelServer, pod_path
from trellis.api.kube.meta import KubeObject, ObjectMeta
from trellis.kube.resources import PODS
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.informer import WatchInformer


def _slim(resource: KubeObject) -> KubeObject:
    metadata = resource.metadata
    meta = ObjectMeta(name=metadata.name, namespace=metadata.namespace, annotations=metadata.annotations)
    return msgspec.structs.replace(resource, metadata=meta)


def test_objects_are_stored_and_handed_out_as_transformed() -> None:
    server = ModelServer()
    for name in ("a", "b"):
        server.put(pod_path(name), {"metadata": {"labels": {"x": "y"}, "annotations": {"v": "1"}}})

    async def main() -> None:
        informer = WatchInformer(server.client, PODS.as_metadata(), draw=lambda: 0.5, transform=_slim)
        changes: list[ObjectChange[KubeObject]] = []
        informer.subscribe(changes.append)
        task = asyncio.create_task(informer.run())
        await informer.wait_until_synced()
        server.put(pod_path("a"), {"metadata": {"labels": {"x": "z"}, "annotations": {"v": "2"}}})
        await asyncio.sleep(1)
        # What has changed while nobody listened comes with the next list, though no version is kept to compare.
        server.break_watches()
        server.put(pod_path("b"), {"metadata": {"annotations": {"v": "3"}}})
        server.compact()
        await asyncio.sleep(60)
        task.cancel()
        await asyncio.wait({task})
        annotations = {
            name: dict(resource.metadata.annotations) for (_, name), resource in informer.snapshot().objects.items()
        }
        assert annotations == {"a": {"v": "2"}, "b": {"v": "3"}}
        assert all(not change.new.metadata.labels for change in changes if change.new)
        assert changes[-1].new is not None
        assert changes[-1].new.metadata.annotations["v"] == "3"

    virtual_time.run(main())
