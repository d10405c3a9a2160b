"""`trellis explain`: explains a VPA, an Hvpa, a Buffer, a workload, a pod, a node or a recommendation.

The explanation is made from a dump, or from as much of a cluster as the answer takes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from trellis.cli.command_class import TrellisCommand
from trellis.cli.input_files import open_input
from trellis.cli.object_names import NamedObject, parse_object_name
from trellis.cli.options import (
    NODE_GROUP_PARAMETERS,
    cluster_access_options,
    complete,
    history_option,
    namespace_option,
    node_group_options,
    open_chosen_client,
    prometheus_config_option,
    prometheus_history_url_option,
    refuse_options,
    refuse_without_prometheus,
    resolution_option,
)
from trellis.cli.output_files import get_text_width
from trellis.cli.output_formats import Output, encode_as_yaml, output_options, write_result

if TYPE_CHECKING:
    from trellis.cli.prometheus_series import PrometheusOptions
    from trellis.controllers.nodes.group_settings import NodeGroupFlags
    from trellis.core.cluster.state import ClusterState
    from trellis.core.explain import Evidence, ObjectExplanation
    from trellis.kube.client import Client

_WAITING_KINDS: Final = ("vpa", "recommendation")
_NODE_KINDS: Final = ("node", "buffer", "pod")
_WAIT_INTERVAL_SECONDS: Final = 1.0


def load_dump(path: Path, namespace: str) -> tuple[ClusterState, str]:
    """The state in a dump, and the namespace: the given one, or the only one that the dump has."""
    from trellis.cli.dump_reader import read_dump  # noqa: PLC0415 -- NumPy comes with it; --help does not wait

    collected = read_dump(path)
    snapshots = (collected.vpas, collected.hvpas, collected.buffers, collected.pods)
    namespaces = sorted({namespace for snapshot in snapshots for namespace, _ in snapshot.objects})
    if not namespace and len(namespaces) != 1:
        raise click.UsageError(f"name the namespace with -n: the dump has {', '.join(namespaces) or 'none'}")
    return collected, namespace or namespaces[0]


def _read_group_flags(parameters: Mapping[str, str | None]) -> NodeGroupFlags:
    from trellis.controllers.nodes.group_settings import NodeGroupFlags  # noqa: PLC0415 -- NumPy comes with it

    return NodeGroupFlags(parameters, os.environ)


async def load_cluster(
    access: tuple[Path | None, str], subject: NamedObject, flags: NodeGroupFlags
) -> tuple[ClusterState, str]:
    """The state of a namespace; with all that decides about nodes where a Buffer or a waiting pod is asked about."""
    from trellis.controllers.nodes.group_query import build_query  # noqa: PLC0415 -- see above
    from trellis.sources.cluster.collector import collect_state  # noqa: PLC0415
    from trellis.sources.cluster.lists import CollectionScope  # noqa: PLC0415

    async with open_chosen_client(*access, "trellis-explain") as (client, context_namespace):
        chosen = subject.namespace or context_namespace
        with_nodes = CollectionScope(
            (chosen,),
            chosen,
            all_pods=True,
            node_groups=flags.own_settings.kwok.kwok_node_groups,
            chosen=flags.names_kwok_node_groups,
        )
        if subject.kind == "buffer":
            return await collect_state(client, with_nodes, time.time(), query_groups=build_query(flags)), chosen
        collected = await collect_state(client, CollectionScope((chosen,), chosen), time.time())
        pod = collected.pods.get(chosen, subject.name) if subject.kind == "pod" else None
        if pod is not None and not pod.spec.node_name:
            collected = await collect_state(client, with_nodes, time.time(), query_groups=build_query(flags))
        elif subject.is_workload and len(collected.buffers):
            collected = await collect_state(client, with_nodes, time.time())
        return collected, chosen


async def load_cluster_nodes(access: tuple[Path | None, str], flags: NodeGroupFlags) -> ClusterState:
    """The cluster state that decisions about nodes are made from."""
    from trellis.controllers.nodes.group_query import build_query  # noqa: PLC0415 -- see above
    from trellis.sources.cluster.collector import collect_state  # noqa: PLC0415
    from trellis.sources.cluster.lists import CollectionScope  # noqa: PLC0415

    async with open_chosen_client(*access, "trellis-explain") as (client, context_namespace):
        scope = CollectionScope(
            (),
            context_namespace,
            node_groups=flags.own_settings.kwok.kwok_node_groups,
            chosen=flags.names_kwok_node_groups,
            nodes_only=True,
        )
        return await collect_state(client, scope, time.time(), query_groups=build_query(flags))


async def wait_for_recommendation(client: Client, namespace: str, name: str, seconds: float) -> bool:
    """Whether a VPA has a recommendation, or gets one before the time is over. A VPA that does not exist gets none."""
    from trellis.base.errors import NotFound  # noqa: PLC0415 -- see above
    from trellis.kube.resources import VPAS  # noqa: PLC0415

    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        try:
            status = (await client.get(VPAS, name, namespace)).status
        except NotFound:
            return False
        if status is not None and status.recommendation and status.recommendation.container_recommendations:
            return True
        if loop.time() >= end:
            return False
        await asyncio.sleep(_WAIT_INTERVAL_SECONDS)


async def _wait(access: tuple[Path | None, str], subject: NamedObject, seconds: float) -> bool:
    async with open_chosen_client(*access, "trellis-explain") as (client, own_namespace):
        return await wait_for_recommendation(client, subject.namespace or own_namespace, subject.name, seconds)


_MAX_WIDTH = 120  # columns of text
_USAGE_OPTIONS = ("prometheus_url", "history", "resolution", "prometheus_config")


@click.command(name="explain", cls=TrellisCommand)
@click.argument("words", nargs=-1, required=True, metavar="KIND/NAME", shell_complete=complete("objects"))
@namespace_option("Namespace of the object.  [default: that of the context]")
@click.option("-c", "--container", default="", metavar="NAME", help="Only this container, of a recommendation.")
@click.option(
    "--dump",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Explain from a file that `trellis dump` wrote, as of then, without a cluster; - is standard input.",
)
@output_options(["text", "json", "yaml"])
@click.option("--json", "json_", is_flag=True, hidden=True)
@click.option(
    "--wait",
    default="",
    metavar="DURATION",
    help="Wait up to this long for the VPA to have a recommendation, such as 3m.",
)
@click.option(
    "--ready-patience",
    default="",
    metavar="DURATION",
    help="Value of this flag of the Hvpa controller to assume.  [default: the flag of its Deployment, else 1m]",
)
@prometheus_history_url_option
@history_option("1d")
@resolution_option
@prometheus_config_option
@node_group_options
@cluster_access_options
def command(
    words: tuple[str, ...],
    *,
    namespace: str,
    container: str,
    wait: str,
    ready_patience: str,
    dump: Path | None,
    output: Output,
    json_: bool,
    prometheus_url: str | None,
    history: str,
    resolution: str,
    prometheus_config: Path | None,
    kubeconfig: Path | None,
    context: str,
    **node_groups: str | None,
) -> None:
    """Explain what is decided about an object, and why.

    KIND is vpa, hvpa, buffer, pod, node, recommendation, or a workload such as deployment or statefulset. Short names
    work, and so does `KIND NAME`. The answer is computed by the code that decides in the components. What only a
    running component knows is listed at the end.

    \b
      vpa, hvpa       what is decided for each container and pod, and why
      recommendation  how the numbers come about, step by step
      deployment      what governs a workload: size, count, spare capacity
      buffer          how many chunks (virtual pods), their shape and cost
      pod             what happens to it; which nodes take it if it waits
      node            why it is there, and why it is not removed

    \b
        trellis explain vpa/web -n shop
        trellis explain vpa/web --wait 3m
        trellis explain deployment web
        trellis explain pod/web-7d4b9-x2x7k -o yaml
        trellis explain recommendation/web -c app --dump dump.jsonl.gz

    \b
    Exit status:
      0  the answer is complete
      1  the answer is partial: something could not be read, or there is
         no recommendation after --wait
      2  there is no such object, or the command could not run
    """  # noqa: D301 -- click wants the backspace character itself
    subject = parse_object_name(words, namespace)
    if container and subject.kind != "recommendation":
        raise click.UsageError("--container needs a recommendation, as in recommendation/web")
    if ready_patience and subject.kind != "hvpa":
        raise click.UsageError("--ready-patience needs an Hvpa, as in hvpa/web")
    _check_sources(subject, namespace, dump, prometheus_url)
    seconds = _read_wait(wait, subject, dump)
    chosen = Output("json", output.file) if json_ else output
    access = (kubeconfig, context)
    if subject.kind == "node":
        _finish(_explain_node(subject.name, dump, access, node_groups), chosen)
        return
    is_complete = seconds is None or asyncio.run(_wait(access, subject, seconds))
    if dump is not None:
        with open_input(dump) as path:
            collected, own = load_dump(path, subject.namespace)
    else:
        collected, own = asyncio.run(load_cluster(access, subject, _read_group_flags(node_groups)))
    if prometheus_url:
        from trellis.cli.prometheus_series import PrometheusOptions  # noqa: PLC0415 -- for those who ask Prometheus

        options = PrometheusOptions(prometheus_url, history, resolution, prometheus_config)
        collected = _add_history(collected, own, options)
    _finish(_explain(collected, own, subject, container, ready_patience=ready_patience), chosen)
    if not is_complete:
        sys.exit(1)


def _read_wait(text: str, subject: NamedObject, dump: Path | None) -> float | None:
    """How many seconds to wait at most; None if not at all."""
    if not text:
        return None
    if subject.kind not in _WAITING_KINDS or dump is not None:
        raise click.UsageError("--wait needs a VPA of a cluster, as in vpa/web")
    from trellis.base.durations import parse_span  # noqa: PLC0415 -- see above

    return parse_span(text)


def _check_sources(subject: NamedObject, namespace: str, dump: Path | None, prometheus_url: str | None) -> None:
    """Refuse options that would have no effect. As with kubectl, -n beside a node has none and is no mistake."""
    if subject.kind == "node":
        if subject.namespace and not namespace:
            raise click.UsageError(f"a node is in no namespace: name it as in node/{subject.name}")
        refuse_options(*_USAGE_OPTIONS, because="a node is explained without usage")
    if subject.kind not in _NODE_KINDS:
        refuse_options(*NODE_GROUP_PARAMETERS, because="only for a node, a Buffer and a pod that waits for a node")
    if dump is not None:
        refuse_options(*NODE_GROUP_PARAMETERS, because="only for a cluster; a dump has its node groups")
        refuse_options(*_USAGE_OPTIONS, because="only for a cluster; a dump brings its own history")
        refuse_options("context", "kubeconfig", because="only for a cluster; here the objects are read from a dump")
    refuse_without_prometheus(prometheus_url)


def _finish(explained: ObjectExplanation, output: Output) -> None:
    from trellis.reports.explain.report import as_json, as_text  # noqa: PLC0415 -- see above

    # A file takes every character; a terminal may not.
    plain = not output.is_plain_in_file and "utf" not in (sys.stdout.encoding or "").lower()
    formats = {
        "text": lambda: "".join(f"{line}\n" for line in as_text(explained, get_text_width(_MAX_WIDTH), plain=plain)),
        "json": lambda: as_json(explained).decode(),
        "yaml": encode_as_yaml(lambda: as_json(explained)),
    }
    write_result(formats, output)
    if explained.partial:
        sys.exit(1)


def _explain_node(
    name: str, dump: Path | None, access: tuple[Path | None, str], node_groups: Mapping[str, str | None]
) -> ObjectExplanation:
    """The answer about a node, which is in no namespace: all of them decide about it."""
    from trellis.cli.dump_reader import (  # noqa: PLC0415 -- as below
        add_node_settings,
        read_dump,
        read_node_groups,
    )
    from trellis.core.explain import CollectedSettings, explain_node  # noqa: PLC0415

    if dump is not None:
        with open_input(dump) as path:
            collected = read_dump(path)
    else:
        collected = asyncio.run(load_cluster_nodes(access, _read_group_flags(node_groups)))
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
    collected: ClusterState, namespace: str, subject: NamedObject, container: str, *, ready_patience: str
) -> ObjectExplanation:
    from trellis.cli.dump_reader import add_node_settings, read_node_groups  # noqa: PLC0415
    from trellis.core.explain import (  # noqa: PLC0415 -- see above
        build_evidence,
        explain_buffer,
        explain_hvpa,
        explain_pod,
        explain_recommendation,
        explain_vpa,
        explain_workload,
    )
    from trellis.core.explain.component_decisions.node_plans import run_node_autoscaler  # noqa: PLC0415
    from trellis.sim.dump.component_settings import read_components, with_ready_patience  # noqa: PLC0415

    kind, name = subject.kind, subject.name
    components = read_components(collected)
    if ready_patience:
        components = with_ready_patience(components, ready_patience)
    if kind in ("buffer", "pod") or subject.is_workload:
        components = add_node_settings(components, collected)
    evidence: Evidence = build_evidence(collected, namespace, components)
    if subject.is_workload:
        return explain_workload(evidence, kind, name)
    if kind == "recommendation":
        return explain_recommendation(evidence, name, container)
    if kind in ("vpa", "hvpa"):
        return {"vpa": explain_vpa, "hvpa": explain_hvpa}[kind](evidence, name)
    groups = read_node_groups(collected)
    noded = run_node_autoscaler(collected, groups, components, evidence.now) if groups.declared else None
    if kind == "buffer":
        return explain_buffer(evidence, name, node_evidence=noded)
    return explain_pod(evidence, name, noded)
