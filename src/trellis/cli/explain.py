"""`trellis explain`: why a VerticalPodAutoscaler, an Hvpa, a Buffer, a pod or a recommendation is as it is."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trellis.cli.access import access_options, connected

if TYPE_CHECKING:
    from trellis.cli.prometheus_series import AskedPrometheus
    from trellis.core.explain import Evidence, Explained
    from trellis.core.model.collected import Collected

# Of a line where nobody says how wide it may be, and of any: longer lines are harder to follow.
_USUAL, _WIDEST = 100, 120
_KINDS = ("vpa", "hvpa", "buffer", "pod", "recommendation")


@click.command(name="explain")
@click.argument("kind", type=click.Choice(_KINDS), metavar="vpa|hvpa|buffer|pod|recommendation")
@click.argument("name", metavar="[NAMESPACE/]NAME")
@click.option("-n", "--namespace", default="", help="Where it is.  [default: that of the context]")
@click.option("-c", "--container", default="", help="Of a recommendation, only that for this container.")
@click.option(
    "--dump",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Explain from what `trellis dump` wrote, as of then, and ask no cluster.",
)
@click.option("--json", "json_", is_flag=True, help="Print the explanation as JSON.")
@click.option("--prometheus-url", metavar="URL", help="Take usage of the last days from Prometheus along.")
@click.option("--history", default="1d", show_default=True, metavar="DURATION", help="How far back.")
@click.option("--resolution", default="5m", show_default=True, metavar="DURATION", help="Time between two samples.")
@click.option(
    "--prometheus-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A YAML file of further settings of Prometheus, named like the flags of `trellis recommender`.",
)
@access_options
def command(
    kind: str,
    name: str,
    *,
    namespace: str,
    container: str,
    dump: Path | None,
    json_: bool,
    prometheus_url: str | None,
    history: str,
    resolution: str,
    prometheus_config: Path | None,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Say why a VPA, an Hvpa, a Buffer, a pod or a recommendation is as it is.

    Which usage there is, what the recommender makes of it step by step, what becomes of each pod and why, what would
    have to change for something else, and who else has a say. Of an Hvpa: where demand comes from, how the count and
    the size follow from it, and a drawing of its buckets. Of a Buffer: how many chunks it stands for and why, what one
    looks like, when, what it costs, and whether the nodes there are have room. It asks the code that decides in the
    components; what they alone can know is named at the end.

    \b
        trellis explain vpa web -n shop
        trellis explain hvpa web -n shop
        trellis explain buffer web -n shop
        trellis explain pod shop/web-7d4b9-x2x7k
        trellis explain recommendation web -c app --dump dump.jsonl.gz

    \b
    Exit status: 0 done, 1 the answer is partial, because something could not be read,
    2 there is no such object, or the command could not run.
    """  # noqa: D301 -- click wants the backspace character itself
    if container and kind != "recommendation":
        raise click.UsageError("--container goes with a recommendation")
    if dump is not None and prometheus_url:
        raise click.UsageError("a dump has its history with it: --prometheus-url goes with a cluster")
    where, _, short = name.rpartition("/")
    if where and namespace not in ("", where):
        raise click.UsageError(f"{name} is in another namespace than -n {namespace}")
    if dump is not None:
        collected, own = _from_dump(dump, where or namespace)
    else:
        access = kubeconfig, context
        collected, own = asyncio.run(_from_cluster(access, where or namespace, all_pods=kind == "buffer"))
    if prometheus_url:
        from trellis.cli.prometheus_series import AskedPrometheus  # noqa: PLC0415 -- for those who ask Prometheus

        asked = AskedPrometheus(prometheus_url, history, resolution, prometheus_config)
        collected = _with_history(collected, own, asked)
    explained = _explained(collected, own, kind, short, container)
    _print(explained, json_=json_)
    if explained.partial:
        sys.exit(1)


def _from_dump(path: Path, namespace: str) -> tuple[Collected, str]:
    """What a dump has, and the namespace that is meant: the only one there is, if nobody says."""
    from trellis.cli.recorded_files import collected_from  # noqa: PLC0415 -- NumPy comes with it; --help does not wait

    collected = collected_from(path)
    kept = (collected.vpas, collected.hvpas, collected.buffers, collected.pods)
    there = sorted({namespace for each in kept for namespace, _ in each.objects})
    if not namespace and len(there) != 1:
        raise click.UsageError(f"say in which namespace with -n: the dump has {', '.join(there) or 'none'}")
    return collected, namespace or there[0]


async def _from_cluster(access: tuple[Path | None, str], namespace: str, *, all_pods: bool) -> tuple[Collected, str]:
    """What a cluster has in a namespace; `all_pods` are needed to say what its nodes have room for."""
    from trellis.sources.cluster.collecting import collected  # noqa: PLC0415 -- see above
    from trellis.sources.cluster.where import Wanted  # noqa: PLC0415

    async with connected(*access, "trellis-explain") as (client, own):
        chosen = namespace or own
        return await collected(client, Wanted((chosen,), chosen, all_pods), time.time()), chosen


def _with_history(collected: Collected, namespace: str, asked: AskedPrometheus) -> Collected:
    """The same with what Prometheus has."""
    import msgspec  # noqa: PLC0415 -- see above

    from trellis.cli.prometheus_series import history_from_prometheus  # noqa: PLC0415

    history, lacking = history_from_prometheus(asked, [namespace], quiet=True)
    missing = (*collected.missing, *lacking)
    return msgspec.structs.replace(collected, history=tuple(history), missing=missing)


def _explained(collected: Collected, namespace: str, kind: str, name: str, container: str) -> Explained:
    from trellis.core.explain import (  # noqa: PLC0415 -- see above
        evidence_of,
        explain_buffer,
        explain_hvpa,
        explain_pod,
        explain_recommendation,
        explain_vpa,
    )
    from trellis.sim.collected_figures import components_of  # noqa: PLC0415

    evidence: Evidence = evidence_of(collected, namespace, components_of(collected))
    if kind == "recommendation":
        return explain_recommendation(evidence, name, container)
    if kind == "buffer":
        return explain_buffer(evidence, name)
    return {"vpa": explain_vpa, "hvpa": explain_hvpa, "pod": explain_pod}[kind](evidence, name)


def _print(explained: Explained, *, json_: bool) -> None:
    from trellis.reports.explain import as_json, as_text  # noqa: PLC0415 -- see above

    if json_:
        click.echo(as_json(explained), nl=False)
        return
    width = min(shutil.get_terminal_size((_USUAL, 24)).columns, _WIDEST)
    plain = "utf" not in (sys.stdout.encoding or "").lower()
    for line in as_text(explained, width, plain=plain):
        click.echo(line)
