"""`trellis doctor`: checks a cluster before and after an installation, and says what to do."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trellis.cli.command_class import TrellisCommand
from trellis.cli.commands.diagnosis.watching import choose_paint
from trellis.cli.options import cluster_access_options, namespace_option, open_chosen_client
from trellis.cli.output_files import get_text_width
from trellis.cli.output_formats import Output, encode_as_yaml, output_options, write_result

if TYPE_CHECKING:
    from trellis.base.errors import KubeError
    from trellis.diagnosis.doctor import DoctorFacts

_WIDEST = 120


@click.command(name="doctor", cls=TrellisCommand)
@namespace_option(
    "Namespace of the installation, or to install into.  [default: that of the components, or trellis-system]"
)
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "problem"]),
    default="problem",
    show_default=True,
    help="Level from which the exit status is 1.",
)
@click.option("--probe", is_flag=True, help="Send a pod through the webhook too, as a dry run: nothing is created.")
@output_options(["table", "json", "yaml", "markdown"])
@cluster_access_options
def command(
    *, namespace: str, fail_on: str, probe: bool, output: Output, kubeconfig: Path | None, context: str
) -> None:
    """Check a cluster before and after an installation.

    A line for each check: ok, warning, problem or unknown, and what to do. The checks are the version of Kubernetes and
    what it lacks, feature gates, clocks, CRDs, the metrics API, Prometheus, webhooks of other programs, the namespace,
    your rights, and of an installation its components, Leases, passes, webhook, freezes, objects and the rights of its
    accounts. Components of upstream's VPA that work beside those of Trellis are found.

    Nothing is changed. What may not be read is unknown, with the right that is needed.

    \b
        trellis doctor
        trellis doctor -n autoscaling --fail-on warning
        trellis doctor -o markdown --output-file doctor.md

    \b
    Exit status:
      0  no finding of the level of --fail-on
      1  findings of that level or worse
      2  cannot tell: the API server does not answer, or too little may be
         read
    """  # noqa: D301 -- click wants the backspace character itself
    from trellis.base.errors import KubeError  # noqa: PLC0415 -- --help does not wait for what asks a cluster
    from trellis.diagnosis.doctor import diagnose  # noqa: PLC0415
    from trellis.diagnosis.findings import Level  # noqa: PLC0415
    from trellis.diagnosis.text.doctor_text import format_diagnosis, format_markdown  # noqa: PLC0415
    from trellis.diagnosis.text.documents import build_diagnosis_document  # noqa: PLC0415

    try:
        facts = asyncio.run(_collect(namespace, kubeconfig, context, probe=probe))
    except KubeError as error:
        sys.exit(_write_no_answer(error, output))
    diagnosis, level = diagnose(facts), Level(fail_on)
    lines = format_diagnosis(diagnosis, get_text_width(_WIDEST), choose_paint())
    _write(build_diagnosis_document(diagnosis, level), lines, lambda: format_markdown(diagnosis), output)
    exit_status = diagnosis.choose_exit_status(level)
    if exit_status:
        sys.exit(exit_status)


def _write_no_answer(error: KubeError, output: Output) -> int:
    from trellis.diagnosis.findings import ExitStatus  # noqa: PLC0415 -- see above
    from trellis.diagnosis.text.documents import DIAGNOSIS, build_no_answer_document  # noqa: PLC0415
    from trellis.diagnosis.text.status_text import format_no_answer  # noqa: PLC0415
    from trellis.diagnosis.unread import build_no_answer  # noqa: PLC0415

    answer = build_no_answer(error)
    lines = format_no_answer(answer, get_text_width(_WIDEST), choose_paint())
    document = build_no_answer_document(DIAGNOSIS, answer, time.time())
    _write(document, lines, lambda: "\n".join(lines) + "\n", output)
    return ExitStatus.CANNOT_TELL


def _write(document: dict[str, Any], lines: list[str], format_markdown: Callable[[], str], output: Output) -> None:
    from trellis.diagnosis.text.documents import encode_document  # noqa: PLC0415 -- see above

    formats = {
        "table": lambda: "\n".join(lines) + "\n",
        "json": lambda: encode_document(document).decode(),
        "yaml": encode_as_yaml(lambda: encode_document(document)),
        "markdown": format_markdown,
    }
    write_result(formats, output)


async def _collect(namespace: str, kubeconfig: Path | None, context: str, *, probe: bool) -> DoctorFacts:
    from trellis.diagnosis.collection.collector import collect_doctor_facts  # noqa: PLC0415 -- see above

    async with open_chosen_client(kubeconfig, context, "trellis-doctor") as (client, own_namespace):
        return await collect_doctor_facts(
            client, time.time(), namespace=namespace, own_namespace=own_namespace, probe=probe
        )
