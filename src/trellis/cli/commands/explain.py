"""`trellis explain`: explains the state of a VPA, an Hvpa, a Buffer, a node, a pod or a recommendation.

The explanation is made from a dump, or from as much of a cluster as the answer takes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trellis.cli.options import (
    cluster_access_options,
    history_option,
    open_chosen_client,
    prometheus_config_option,
    prometheus_history_url_option,
    resolution_option,
)
from trellis.cli.output_files import get_text_width

if TYPE_CHECKING:
    from trellis.cli.prometheus_series import PrometheusOptions
    from trellis.core.cluster.state import ClusterState
    from trellis.core.explain import Evidence, ObjectExplanation


def load_dump(path: Path, namespace: str) -> tuple[ClusterState, str]:
    """The state in a dump, and the namespace: the given one, or the only one that the dump has."""
    from trellis.cli.dump_reader import read_dump  # noqa: PLC0415 -- NumPy comes with it; --help does not wait

    collected = read_dump(path)
    snapshots = (collected.vpas, collected.hvpas, collected.buffers, collected.pods)
    namespaces = sorted({namespace for snapshot in snapshots for namespace, _ in snapshot.objects})
    if not namespace and len(namespaces) != 1:
        raise click.UsageError(f"say in which namespace with -n: the dump has {', '.join(namespaces) or 'none'}")
    return collected, namespace or namespaces[0]


async def load_cluster(
    access: tuple[Path | None, str], namespace: str, kind: str, name: str
) -> tuple[ClusterState, str]:
    """What a cluster has in a namespace; for a Buffer, or a pod that waits, all that decides about nodes as well."""
    from trellis.providers.kwok import CONFIG_MAP  # noqa: PLC0415 -- see above
    from trellis.sources.cluster.collector import collect_state  # noqa: PLC0415
    from trellis.sources.cluster.lists import CollectionScope  # noqa: PLC0415

    async with open_chosen_client(*access, "trellis-explain") as (client, context_namespace):
        chosen = namespace or context_namespace
        with_nodes = CollectionScope((chosen,), chosen, all_pods=True, node_groups=CONFIG_MAP)
        if kind == "buffer":
            return await collect_state(client, with_nodes, time.time()), chosen
        collected = await collect_state(client, CollectionScope((chosen,), chosen), time.time())
        pod = collected.pods.get(chosen, name) if kind == "pod" else None
        if pod is not None and not pod.spec.node_name:
            collected = await collect_state(client, with_nodes, time.time())
        return collected, chosen


async def load_cluster_nodes(access: tuple[Path | None, str]) -> ClusterState:
    """The cluster state that decisions about nodes are made from."""
    from trellis.providers.kwok import CONFIG_MAP  # noqa: PLC0415 -- see above
    from trellis.sources.cluster.collector import collect_state  # noqa: PLC0415
    from trellis.sources.cluster.lists import CollectionScope  # noqa: PLC0415

    async with open_chosen_client(*access, "trellis-explain") as (client, context_namespace):
        scope = CollectionScope((), context_namespace, node_groups=CONFIG_MAP, nodes_only=True)
        return await collect_state(client, scope, time.time())


_MAX_WIDTH = 120  # columns of text
_KINDS = ("vpa", "hvpa", "buffer", "node", "pod", "recommendation")


@click.command(name="explain")
@click.argument(
    "kind", type=click.Choice(_KINDS, case_sensitive=False), metavar="vpa|hvpa|buffer|node|pod|recommendation"
)
@click.argument("name", metavar="[NAMESPACE/]NAME")
@click.option("-n", "--namespace", default="", help="Where it is.  [default: that of the context]")
@click.option("-c", "--container", default="", help="Of a recommendation, only that for this container.")
@click.option(
    "--ready-patience",
    default="",
    metavar="DURATION",
    help="Of an Hvpa, as its controller has been told.  [default: the flag of its Deployment, else 1m]",
)
@click.option(
    "--dump",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Explain from what `trellis dump` wrote, as of then, and ask no cluster.",
)
@click.option("--json", "json_", is_flag=True, help="Print the explanation as JSON.")
@prometheus_history_url_option
@history_option("1d")
@resolution_option
@prometheus_config_option
@cluster_access_options
def command(
    kind: str,
    name: str,
    *,
    namespace: str,
    container: str,
    ready_patience: str,
    dump: Path | None,
    json_: bool,
    prometheus_url: str | None,
    history: str,
    resolution: str,
    prometheus_config: Path | None,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Say why a VPA, an Hvpa, a Buffer, a node, a pod or a recommendation is as it is.

    Which usage there is, what the recommender makes of it step by step, what becomes of each pod and why, what would
    have to change for something else, and who else has a say. Of an Hvpa: where demand comes from, how the count and
    the size follow from it, and a drawing of its buckets. Of a Buffer: how many chunks it stands for and why, what one
    looks like, when, what it costs, and whether the nodes there are have room. Of a node: why it is there, and why it
    is not removed; of a pod without one, why no node and no group of nodes takes it. It asks the code that decides in
    the components; what they alone can know is named at the end.

    \b
        trellis explain vpa web -n shop
        trellis explain hvpa web -n shop
        trellis explain buffer web -n shop
        trellis explain node pool-7
        trellis explain pod shop/web-7d4b9-x2x7k
        trellis explain recommendation web -c app --dump dump.jsonl.gz

    Exit status: 0 done, 1 the answer is partial, because something could not be read,
    2 there is no such object, or the command could not run.
    """  # noqa: D301 -- click wants the backspace character itself
    if container and kind != "recommendation":
        raise click.UsageError("--container goes with a recommendation")
    if ready_patience and kind != "hvpa":
        raise click.UsageError("--ready-patience goes with an Hvpa")
    if dump is not None and prometheus_url:
        raise click.UsageError("a dump has its history with it: --prometheus-url goes with a cluster")
    if kind == "node":
        if namespace or prometheus_url:
            raise click.UsageError("a node is in no namespace and has no usage: -n and --prometheus-url go with others")
        _finish(_explain_node(name, dump, (kubeconfig, context)), json_=json_)
        return
    where, _, short = name.rpartition("/")
    if where and namespace not in ("", where):
        raise click.UsageError(f"{name} is in another namespace than -n {namespace}")
    if dump is not None:
        collected, own = load_dump(dump, where or namespace)
    else:
        collected, own = asyncio.run(load_cluster((kubeconfig, context), where or namespace, kind, short))
    if prometheus_url:
        from trellis.cli.prometheus_series import PrometheusOptions  # noqa: PLC0415 -- for those who ask Prometheus

        options = PrometheusOptions(prometheus_url, history, resolution, prometheus_config)
        collected = _add_history(collected, own, options)
    _finish(_explain(collected, own, kind, short, container, ready_patience=ready_patience), json_=json_)


def _finish(explained: ObjectExplanation, *, json_: bool) -> None:
    _print(explained, json_=json_)
    if explained.partial:
        sys.exit(1)


def _explain_node(name: str, dump: Path | None, access: tuple[Path | None, str]) -> ObjectExplanation:
    """The answer about a node, which is in no namespace: all of them decide about it."""
    from trellis.cli.dump_reader import (  # noqa: PLC0415 -- as below
        add_node_settings,
        read_dump,
        read_node_groups,
    )
    from trellis.core.explain import CollectedSettings, explain_node  # noqa: PLC0415

    collected = read_dump(dump) if dump is not None else asyncio.run(load_cluster_nodes(access))
    names = tuple(component.component for component in collected.components)
    components = add_node_settings(CollectedSettings(with_flags=names), collected)
    return explain_node(collected, name, read_node_groups(collected), components)


def _add_history(collected: ClusterState, namespace: str, options: PrometheusOptions) -> ClusterState:
    """The cluster state with the usage history in Prometheus."""
    import msgspec  # noqa: PLC0415 -- see above

    from trellis.cli.prometheus_series import read_prometheus_history  # noqa: PLC0415

    history, lacking = read_prometheus_history(options, [namespace], quiet=True)
    missing = (*collected.missing, *lacking)
    return msgspec.structs.replace(collected, history=tuple(history), missing=missing)


def _explain(
    collected: ClusterState, namespace: str, kind: str, name: str, container: str, *, ready_patience: str
) -> ObjectExplanation:
    from trellis.cli.dump_reader import add_node_settings, read_node_groups  # noqa: PLC0415
    from trellis.core.explain import (  # noqa: PLC0415 -- see above
        build_evidence,
        explain_buffer,
        explain_hvpa,
        explain_pod,
        explain_recommendation,
        explain_vpa,
    )
    from trellis.core.explain.component_decisions.node_plans import run_node_autoscaler  # noqa: PLC0415
    from trellis.sim.dump.component_settings import read_components, with_ready_patience  # noqa: PLC0415

    components = read_components(collected)
    if ready_patience:
        components = with_ready_patience(components, ready_patience)
    if kind in ("buffer", "pod"):
        components = add_node_settings(components, collected)
    evidence: Evidence = build_evidence(collected, namespace, components)
    if kind == "recommendation":
        return explain_recommendation(evidence, name, container)
    if kind in ("vpa", "hvpa"):
        return {"vpa": explain_vpa, "hvpa": explain_hvpa}[kind](evidence, name)
    groups = read_node_groups(collected)
    noded = run_node_autoscaler(collected, groups, components, evidence.now) if groups.declared else None
    if kind == "buffer":
        return explain_buffer(evidence, name, node_evidence=noded)
    return explain_pod(evidence, name, noded)


def _print(explained: ObjectExplanation, *, json_: bool) -> None:
    from trellis.reports.explain.report import as_json, as_text  # noqa: PLC0415 -- see above

    if json_:
        click.echo(as_json(explained), nl=False)
        return
    plain = "utf" not in (sys.stdout.encoding or "").lower()
    for line in as_text(explained, get_text_width(_MAX_WIDTH), plain=plain):
        click.echo(line)
