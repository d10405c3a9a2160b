"""What does it mean that Prometheus says no? In words that name the setting to change, where there is one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from trellis.base.errors import PrometheusRefused, PrometheusTooMuch, shown
from trellis.sources.prometheus.answers import read_error

_TIMEOUT: Final = "timeout"
# Prometheus, Thanos, Mimir and VictoriaMetrics each have words of their own for it. To take another error for one of
# these costs a few smaller queries, which fail in the same way.
_TOO_MUCH: Final = re.compile(
    r"too (?:many|much|large|long|big)|larger than|exceed|limit|maximum|timed out|deadline|-search\.max", re.IGNORECASE
)
# The recommender has a flag for each setting; a command takes most of them from a file.
_CREDENTIALS: Final = (
    "set prometheus-bearer-token-file, or username and password: for the recommender by flags, for other commands in "
    "the file of --prometheus-config"
)
_ADDRESS: Final = "see --prometheus-address of the recommender, --prometheus-url of other commands"
_ADVICE: Final = {
    401: f"it asks for other credentials; {_CREDENTIALS}",
    403: f"these credentials are not allowed to ask; {_CREDENTIALS}",
    404: f"there is no API of Prometheus at this address; {_ADDRESS}",
}
_REDIRECTS: Final = range(300, 400)


def refusal(address: str, status: int, headers: Mapping[str, str], body: bytes) -> PrometheusRefused:
    """The error that an answer other than 200 stands for."""
    found = read_error(body)
    said = found.error if found else _excerpt(body)
    kind = found.error_type if found else ""
    if status in _REDIRECTS:
        said = f"it sends us to {headers.get('Location', 'elsewhere')}; {_ADDRESS}"
    elif status in _ADVICE and not kind:
        said = f"{_ADVICE[status]}{f' ({said})' if said else ''}"
    message = f"Prometheus at {address} answers {status}: {said or 'no reason'}"
    return (PrometheusTooMuch if _is_too_much(status, kind, said) else PrometheusRefused)(message, status, kind)


def is_temporary(error: PrometheusRefused) -> bool:
    """Whether the same query may succeed later."""
    if isinstance(error, PrometheusTooMuch):
        return False
    return error.status == 429 or error.status >= 500


def retry_after(headers: Mapping[str, str], most: float) -> float | None:
    """For how many seconds the server asks to be left alone."""
    text = headers.get("Retry-After", "")
    return min(float(text), most) if text.isascii() and text.isdigit() else None


def _is_too_much(status: int, kind: str, said: str) -> bool:
    if status == 413 or kind == _TIMEOUT:
        return True
    return status in (400, 422) and _TOO_MUCH.search(said) is not None


def _excerpt(body: bytes) -> str:
    """As much of a body as fits into a line: a proxy answers with a page."""
    return shown(" ".join(body[:400].decode("utf-8", "replace").split())) if body else ""
