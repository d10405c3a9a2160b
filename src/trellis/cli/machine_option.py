"""Of which machine are fractions, in files of usage that have no other unit?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from trellis.sources.series.units import Machine

F = TypeVar("F", bound=Callable[..., Any])


def machine_option(command: F) -> F:
    """Add it; commands read it with `read_machine`, so that --help does not wait for what that needs."""
    option: Callable[[F], F] = click.option(
        "--machine",
        default="100,512Gi",
        show_default=True,
        metavar="CORES,MEMORY",
        help="What fractions are of, in files that have no other unit.",
    )
    return option(command)


def read_machine(text: str) -> Machine:
    """What was given; refused as a bad parameter."""
    from trellis.base.errors import InvalidInput  # noqa: PLC0415 -- NumPy comes with the rest
    from trellis.base.quantity import Quantity  # noqa: PLC0415
    from trellis.sources.series.units import Machine  # noqa: PLC0415

    cores, _, memory = text.partition(",")
    try:
        found = Machine(float(Quantity.parse(cores).exact()), float(Quantity.parse(memory).exact()))
    except InvalidInput as error:
        raise click.BadParameter(
            f"must be cores and memory, as in 64,256Gi: {error}", param_hint="--machine"
        ) from error
    if found.cores <= 0 or found.bytes <= 0:
        raise click.BadParameter(f'"{text}" is no machine: both must be above zero', param_hint="--machine")
    return found
