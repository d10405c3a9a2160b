"""Which object was meant? Why there is none of a name, and the one that may have been meant."""

from __future__ import annotations

from trellis.base.errors import InvalidInput
from trellis.base.names import nearest
from trellis.core.explain.evidence import Evidence
from trellis.core.model.keys import BY_NAMESPACE
from trellis.core.model.store import Snapshot


def unknown_object(what: str, name: str, evidence: Evidence, among: Snapshot) -> InvalidInput:  # type: ignore[type-arg]
    """That there is no such object, and which may have been meant."""
    namespace, collected = evidence.namespace, evidence.collected
    if (namespace, name) in among.rejected:
        return InvalidInput(name, f"cannot be read: {among.rejected[namespace, name]}")
    for missing in collected.missing_in(namespace):
        if missing.what in (what, f"{what} {name}"):
            return InvalidInput(name, f"is no {what} that can be seen in namespace {namespace}: {missing.why}")
        if missing.what == "Namespace" and missing.where == namespace:
            return InvalidInput(namespace, f"is a namespace that cannot be seen: it {missing.why}")
    names = sorted(each.metadata.name for each in among.by(BY_NAMESPACE, namespace))
    # Of pods one knows the workload, which their names begin with.
    guess = nearest(name, names) or next((each for each in names if each.startswith(f"{name}-")), None)
    elsewhere = sorted({namespace for namespace, other in among.objects if other == name})
    hint = f' (did you mean "{guess}"?)' if guess else ""
    if elsewhere:
        hint = f" (there is one in {', '.join(elsewhere)})"
    elif not guess and not collected.is_whole:
        hint = " (the dump is cut off)"
    return InvalidInput(name, f"there is no {what} of that name in namespace {namespace}{hint}")
