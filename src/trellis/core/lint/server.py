"""What the API server says of an object, as findings at the lines it is about."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trellis.api.problems import Path
from trellis.base.errors import Invalid, KubeError, NotFound, Unreachable
from trellis.base.reason import Reason, Severity
from trellis.core.lint.findings import Finding
from trellis.core.lint.traps import Ours

REFUSED = Reason("RefusedByServer", "The API server refuses the object in a dry run.", Severity.ERROR)
NOT_SERVED = Reason("NotServed", "The cluster does not know this kind, or not the namespace.", Severity.ERROR)

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]|\[([^\]]+)\]")


def server_findings(ours: Ours, error: KubeError) -> Iterator[Finding]:
    """One finding per field that the server objects to, or one for the object."""
    if isinstance(error, Unreachable):
        raise error  # not about this object, and the same for all others
    manifest = ours.manifest
    if isinstance(error, Invalid) and error.details.causes:
        for cause in error.details.causes:
            path = field_path(cause.field)
            yield manifest.finding(REFUSED, f"the API server says: {cause.message}", path)
    elif isinstance(error, NotFound) and error.details.kind != "namespaces":
        message = f"the cluster does not serve {ours.kind.api_version} {ours.kind.name}: install it with `trellis crds`"
        yield manifest.finding(NOT_SERVED, message, ("apiVersion",))
    elif isinstance(error, NotFound):
        yield manifest.finding(NOT_SERVED, f"the API server says: {error.message}", ("metadata", "namespace"))
    else:
        yield manifest.finding(REFUSED, f"the API server says: {error.message}")


def field_path(text: str) -> Path:
    """`spec.buckets[1].cpu` as a path; `<nil>` and the like lead to the object itself."""
    if not re.match(r"[A-Za-z]", text):
        return ()
    return tuple(int(index) if index else name or key for name, index, key in _STEP.findall(text))
