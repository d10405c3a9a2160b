"""How far back is usage taken from Prometheus? A span of time, refused where it is none, whoever is asked then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

F = TypeVar("F", bound=Callable[..., Any])


def history_option(default: str) -> Callable[[F], F]:
    """The option of a command that usually goes back so far."""
    option: Callable[[F], F] = click.option(
        "--history", default=default, show_default=True, metavar="DURATION", help="How far back.", callback=_checked
    )
    return option


def _checked(context: click.Context, option: click.Parameter, text: str) -> str:
    if context.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT:
        from trellis.base.errors import InvalidInput  # noqa: PLC0415 -- NumPy comes with the rest; --help does not wait
        from trellis.sources.prometheus.durations import why_not_span  # noqa: PLC0415

        why = why_not_span(text)
        if why is not None:
            raise InvalidInput(text, f"flag --history: {why}")
    return text
