"""What is an explanation made from? A dump, or what a cluster has: as much of it as the answer takes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trellis.cli.access import connected

if TYPE_CHECKING:
    from trellis.core.model.collected import Collected


def from_dump(path: Path, namespace: str) -> tuple[Collected, str]:
    """What a dump has, and the namespace that is meant: the only one there is, if nobody says."""
    from trellis.cli.recorded_files import collected_from  # noqa: PLC0415 -- NumPy comes with it; --help does not wait

    collected = collected_from(path)
    kept = (collected.vpas, collected.hvpas, collected.buffers, collected.pods)
    there = sorted({namespace for each in kept for namespace, _ in each.objects})
    if not namespace and len(there) != 1:
        raise click.UsageError(f"say in which namespace with -n: the dump has {', '.join(there) or 'none'}")
    return collected, namespace or there[0]


async def from_cluster(access: tuple[Path | None, str], namespace: str, kind: str, name: str) -> tuple[Collected, str]:
    """What a cluster has in a namespace; for a Buffer, or a pod that waits, all that decides about nodes as well."""
    from trellis.providers.kwok import CONFIG_MAP  # noqa: PLC0415 -- see above
    from trellis.sources.cluster.collecting import collected  # noqa: PLC0415
    from trellis.sources.cluster.where import Wanted  # noqa: PLC0415

    async with connected(*access, "trellis-explain") as (client, own):
        chosen = namespace or own
        with_nodes = Wanted((chosen,), chosen, all_pods=True, node_groups=CONFIG_MAP)
        if kind == "buffer":
            return await collected(client, with_nodes, time.time()), chosen
        found = await collected(client, Wanted((chosen,), chosen), time.time())
        pod = found.pods.get(chosen, name) if kind == "pod" else None
        if pod is not None and not pod.spec.node_name:
            found = await collected(client, with_nodes, time.time())
        return found, chosen


async def all_about_nodes(access: tuple[Path | None, str]) -> Collected:
    """What decides about the nodes of a cluster."""
    from trellis.providers.kwok import CONFIG_MAP  # noqa: PLC0415 -- see above
    from trellis.sources.cluster.collecting import collected  # noqa: PLC0415
    from trellis.sources.cluster.where import Wanted  # noqa: PLC0415

    async with connected(*access, "trellis-explain") as (client, own):
        wanted = Wanted((), own, node_groups=CONFIG_MAP, nodes_alone=True)
        return await collected(client, wanted, time.time())
