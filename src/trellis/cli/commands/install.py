"""`trellis install`: prints the manifests of an installation."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from trellis.base.errors import InvalidInput
from trellis.cli.command_class import TrellisCommand
from trellis.cli.input_files import STANDARD_INPUT, check_file, open_input
from trellis.cli.output_formats import Output, output_options, write_result

# The values of `--preset`. The module that declares them is slow to import; a test compares the two.
PRESETS: Final = ("drop-in", "full", "read-only", "advisor")
_RELEASE: Final = "trellis"


@click.command(name="install", cls=TrellisCommand)
@click.option("--preset", type=click.Choice(PRESETS), help="What to install.  [default: full]")
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    help="Namespace of the components.  [default: kube-system for drop-in, else trellis-system]",
)
@click.option("--image", default="", metavar="REFERENCE", help="Image, such as `registry.example/trellis:0.1.0`.")
@click.option(
    "-f",
    "--values",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with values, as for the chart; later files win. - is standard input.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="PATH=VALUE",
    help="One value, such as `replicas=1` or `components=[recommender]`. It wins over files.",
)
@click.option(
    "--to-delete",
    is_flag=True,
    help="Print what to delete instead, webhook first; without CRDs and namespace, which stay.",
)
@output_options(["yaml", "json"])
def command(
    preset: str | None,
    namespace: str,
    image: str,
    files: tuple[Path, ...],
    assignments: tuple[str, ...],
    *,
    to_delete: bool,
    output: Output,
) -> None:
    """Print the manifests of an installation.

    \b
    Presets:
      drop-in    what replaces upstream's VPA: recommender, updater and
                 admission controller, under upstream's names
      full       all components, in two Deployments; nodes once
                 nodes.cloudProviders names a provider
      read-only  recommends and explains; may not change a pod
      advisor    a CronJob that prints what workloads should request

    \b
        trellis install | kubectl apply --server-side -f -
        trellis install --preset drop-in --image registry.example/trellis:0.1.0
        trellis install --set updater.args=[--min-replicas=1] -f values.yaml
        trellis install --to-delete | kubectl delete --ignore-not-found -f -

    The chart has the same values and makes the same objects.
    """  # noqa: D301 -- click wants the backspace character itself
    from trellis.install.installation import (  # noqa: PLC0415 -- slow to import
        NAMESPACES,
        build_manifests,
        build_namespace,
        order_for_removal,
    )
    from trellis.install.tree.evaluation import Context  # noqa: PLC0415
    from trellis.install.tree.printing import print_yaml  # noqa: PLC0415

    values = _load_values(preset, image, files, assignments)
    where = namespace or NAMESPACES[values["preset"]]
    _check_namespace(where)
    context = Context(values, name=_RELEASE, namespace=where, service=_RELEASE)

    def build(*, comments: bool) -> list[dict[str, Any]]:
        if to_delete:
            return order_for_removal(build_manifests(context))
        return [*build_namespace(where), *build_manifests(context, comments=comments)]

    formats = {"yaml": lambda: print_yaml(build(comments=True)), "json": lambda: _encode_json(build(comments=False))}
    write_result(formats, output)


def _load_values(
    preset: str | None, image: str, files: tuple[Path, ...], assignments: tuple[str, ...]
) -> dict[str, Any]:
    """The values of files, then those of options, then single ones."""
    from trellis.install.values.loading import load_values  # noqa: PLC0415

    documents = [_read_values(file) for file in files]
    documents.append(({"preset": preset} if preset else {}) | ({"image": _split_image(image)} if image else {}))
    values = load_values(documents, assignments)
    if values["configuration"]:
        _check_configuration(values["configuration"])
    return values


def _check_configuration(configuration: dict[str, Any]) -> None:
    """Refuse what the components would refuse when they start."""
    from trellis.cli.process.catalog import import_all_settings  # noqa: PLC0415 -- slow to import
    from trellis.install.values.loading import InvalidValues  # noqa: PLC0415
    from trellis.runtime.manager.configuration import API_VERSION, KIND  # noqa: PLC0415
    from trellis.runtime.manager.configuration.validation import find_problems  # noqa: PLC0415

    document = {"apiVersion": API_VERSION, "kind": KIND, **configuration}
    problems = [problem for problem in find_problems(import_all_settings(), document) if problem.is_error]
    if problems:
        raise InvalidValues(problem.with_prefix(("configuration",)) for problem in problems)


def _read_values(file: Path) -> dict[str, Any]:
    from trellis.install.values.loading import read_values  # noqa: PLC0415

    check_file("--values", file)
    with open_input(file) as path:
        try:
            text = path.read_bytes()
        except OSError as error:
            raise InvalidInput(str(file), f"cannot be read: {error.strerror}") from error
        return read_values("<stdin>" if str(file) == STANDARD_INPUT else str(file), text)


def _split_image(reference: str) -> dict[str, str]:
    """The parts of `registry.example:5000/trellis:0.1.0@sha256:...`. The colon of a port stands before a slash."""
    name, _, digest = reference.partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, ""
    return {"repository": repository, "tag": tag, "digest": digest}


def _check_namespace(name: str) -> None:
    from trellis.base.names import check_dns_label  # noqa: PLC0415

    if problem := check_dns_label(name):
        raise InvalidInput(name, f"--namespace {problem}")


def _encode_json(manifests: list[dict[str, Any]]) -> str:
    import json  # noqa: PLC0415

    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}, indent=2) + "\n"
