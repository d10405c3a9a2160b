"""Options that several commands share: cluster access, namespaces, Prometheus, `--history`, `--machine`, `--quiet`.

Imports only click at the top; what reads a value or connects to a cluster is imported when it is called.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from trellis.cli.standard_streams import write_message

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from trellis.kube.client import Client
    from trellis.sources.series.units import Machine


F = TypeVar("F", bound=Callable[..., Any])

CONTRADICTION: Final = "-n names namespaces, and -A means all of them: give one of the two"


def cluster_access_options(command: F) -> F:
    """Add `--context` and `--kubeconfig`."""
    path = click.Path(dir_okay=False, path_type=Path)
    kubeconfig = click.option(
        "--kubeconfig",
        type=path,
        metavar="FILE",
        help="Kubeconfig file for access to the cluster.  [default: $KUBECONFIG, ~/.kube/config]",
    )
    context = click.option(
        "--context",
        default="",
        metavar="NAME",
        shell_complete=complete("contexts"),
        help="Context of the kubeconfig to use.  [default: its current context]",
    )
    return context(kubeconfig(command))


NODE_GROUP_PARAMETERS: Final = (
    "cloud_provider",
    "provider_timeout",
    "provider_option",
    "kwok_node_groups",
    "cluster_api_kubeconfig",
    "cluster_api_context",
    "cluster_api_namespaces",
    "cluster_api_cluster_name",
    "cluster_api_selector",
    "cluster_api_group",
    "karpenter_node_groups",
    "karpenter_launch_timeout",
    "external_grpc_config",
)


def node_group_options(command: F) -> F:
    """Add `--cloud-provider`, and the flags of providers, whose help is that of `trellis nodes`."""
    providers, *others = (f"--{name.replace('_', '-')}" for name in NODE_GROUP_PARAMETERS)
    option: Callable[[F], F] = click.option(
        providers,
        metavar="LIST",
        help="Providers of nodes whose groups are read, such as clusterapi,karpenter. Their flags are those of "
        "`trellis nodes`.  [default: as the autoscaler has them, else kwok]",
    )
    command = option(command)
    for flag in others:
        hidden: Callable[[F], F] = click.option(flag, hidden=True)
        command = hidden(command)
    return command


def namespace_option(help_text: str) -> Callable[[F], F]:
    """Add `-n` for one namespace."""
    option: Callable[[F], F] = click.option(
        "-n", "--namespace", default="", metavar="NAME", shell_complete=complete("namespaces"), help=help_text
    )
    return option


def namespaces_options(help_text: str) -> Callable[[F], F]:
    """Add `-n` for namespaces by name or pattern, and `-A`, which is the default and contradicts `-n`."""

    def decorate(command: F) -> F:
        namespaces = click.option(
            "-n",
            "--namespace",
            "namespaces",
            multiple=True,
            metavar="PATTERN",
            is_eager=True,
            shell_complete=complete("namespaces"),
            help=help_text,
        )
        return namespaces(_everywhere_option("namespaces")(command))

    return decorate


def namespace_or_all_options(help_text: str) -> Callable[[F], F]:
    """Add `-n` for one namespace, and `-A`, which is the default and contradicts `-n`."""

    def decorate(command: F) -> F:
        namespace = click.option(
            "-n",
            "--namespace",
            default="",
            metavar="NAME",
            is_eager=True,
            shell_complete=complete("namespaces"),
            help=help_text,
        )
        return namespace(_everywhere_option("namespace")(command))

    return decorate


def _everywhere_option(other: str) -> Callable[[F], F]:
    """Add `-A`, which contradicts -n; `other` is the parameter of that."""

    def refuse_both(ctx: click.Context, _option: click.Parameter, everywhere: bool) -> None:
        if everywhere and ctx.params.get(other):
            raise click.UsageError(CONTRADICTION)

    option: Callable[[F], F] = click.option(
        "-A",
        "--all-namespaces",
        is_flag=True,
        expose_value=False,
        callback=refuse_both,
        help="All namespaces, which is the default.",
    )
    return option


def processes_option(command: F) -> F:
    """Add `--processes`."""
    option: Callable[[F], F] = click.option(
        "--processes",
        type=click.IntRange(min=1),
        metavar="N",
        default=count_cores,
        show_default=False,
        help="Number of processes that share the work.  [default: one for each core]",
    )
    return option(command)


def count_cores() -> int:
    """The cores that this process may use; all of the machine where the system cannot say."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def quiet_option(command: F) -> F:
    """Add `--quiet`."""
    option: Callable[[F], F] = click.option("--quiet", is_flag=True, help="Show no progress.")
    return option(command)


def complete(what: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """A function that completes values of an option in a shell; what finds them is imported when it is called."""

    def find(ctx: click.Context, option: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from trellis.cli import completion  # noqa: PLC0415 -- for shells alone

        return completion.complete(what, ctx, option, incomplete)

    return find


@asynccontextmanager
async def open_chosen_client(
    kubeconfig: Path | None, context: str, field_manager: str
) -> AsyncIterator[tuple[Client, str]]:
    """A client for the chosen cluster, and the namespace of its context."""
    from trellis.kube.client import Client  # noqa: PLC0415
    from trellis.kube.client_factory import find_connection  # noqa: PLC0415
    from trellis.kube.transport.aiohttp_transport import AiohttpTransport  # noqa: PLC0415 -- only for those who ask a cluster

    connection = find_connection(os.environ, kubeconfig=kubeconfig, context=context)
    for warning in connection.warnings:
        write_message(warning)
    client = Client(AiohttpTransport(connection), field_manager)
    try:
        yield client, connection.namespace
    finally:
        await client.close()


def history_option(default: str) -> Callable[[F], F]:
    """`--history` with the default of the command."""
    option: Callable[[F], F] = click.option(
        "--history",
        default=default,
        show_default=True,
        metavar="DURATION",
        help="How far back to read usage.",
        callback=_check_history,
    )
    return option


def _check_history(context: click.Context, option: click.Parameter, text: str) -> str:
    if context.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT:
        from trellis.base.errors import InvalidInput  # noqa: PLC0415 -- NumPy comes with the rest; --help does not wait
        from trellis.sources.prometheus.durations import check_span  # noqa: PLC0415

        problem = check_span(text)
        if problem is not None:
            raise InvalidInput(text, f"flag --history: {problem}")
    return text


def is_default(name: str) -> bool:
    """Whether the command line leaves out an option, which is named by its parameter."""
    return click.get_current_context().get_parameter_source(name) is not ParameterSource.COMMANDLINE


def refuse_options(*names: str, because: str) -> None:
    """Refuse options, by their parameters, that have no effect beside the others on the command line."""
    flags = [
        max(option.opts, key=len)
        for option in click.get_current_context().command.params
        if option.name in names and not is_default(option.name)
    ]
    if flags:
        raise click.UsageError(f"{', '.join(flags)}: {because}")


def refuse_with_files(
    *names: str, because: str = "only for usage from Prometheus; here usage is read from files"
) -> None:
    """Refuse options that have no effect on usage from files."""
    refuse_options(*names, because=because)


def refuse_without_prometheus(prometheus_url: str | None) -> None:
    """Refuse the options of `prometheus_history_url_option` where no Prometheus is named."""
    if not prometheus_url:
        refuse_options("history", "resolution", "prometheus_config", because="needs --prometheus-url")


def prometheus_history_url_option(command: F) -> F:
    """Add `--prometheus-url` to a command that can do without usage."""
    option: Callable[[F], F] = click.option(
        "--prometheus-url", metavar="URL", help="Address of a Prometheus to read past usage from."
    )
    return option(command)


def resolution_option(command: F) -> F:
    """Add `--resolution`."""
    option: Callable[[F], F] = click.option(
        "--resolution", default="5m", show_default=True, metavar="DURATION", help="Time between two samples of usage."
    )
    return option(command)


def prometheus_config_option(command: F) -> F:
    """Add `--prometheus-config`."""
    option: Callable[[F], F] = click.option(
        "--prometheus-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="YAML file with further settings of Prometheus. Keys are named like the flags of `trellis recommender`.",
    )
    return option(command)


def machine_option(command: F) -> F:
    """Add `--machine`; commands read it with `read_machine`, so that --help does not wait for what that needs."""
    option: Callable[[F], F] = click.option(
        "--machine",
        default="100,512Gi",
        show_default=True,
        metavar="CORES,MEMORY",
        help="Cores and memory of the machine, for files whose values are fractions of it.",
    )
    return option(command)


def read_machine(text: str) -> Machine:
    """The machine that `--machine` names; raises `click.BadParameter`."""
    from trellis.base.errors import InvalidInput  # noqa: PLC0415 -- NumPy comes with the rest
    from trellis.base.quantities import Quantity  # noqa: PLC0415
    from trellis.sources.series.units import Machine  # noqa: PLC0415

    cores, _, memory = text.partition(",")
    try:
        machine = Machine(float(Quantity.parse(cores).exact()), float(Quantity.parse(memory).exact()))
    except InvalidInput as error:
        raise click.BadParameter(
            f'"{text}": must be cores and memory, as in 64,256Gi: {error}', param_hint="--machine"
        ) from error
    if machine.cores <= 0 or machine.bytes <= 0:
        raise click.BadParameter(f'"{text}" is no machine: both must be above zero', param_hint="--machine")
    return machine
