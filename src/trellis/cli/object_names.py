"""Reads the objects that a command line names, as kubectl does: `vpa web`, `vpa/web`, `deploy/shop/web`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import click

from trellis.base.names import suggest_name

# The kinds that can be explained, with the names that each has: those of the API server, and their short names.
KIND_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "vpa": ("vpa", "verticalpodautoscaler", "verticalpodautoscalers"),
    "hvpa": ("hvpa", "hvpas"),
    "buffer": ("buffer", "buffers", "buf"),
    "node": ("node", "nodes", "no"),
    "pod": ("pod", "pods", "po"),
    "recommendation": ("recommendation", "recommendations"),
}
WORKLOAD_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "Deployment": ("deployment", "deployments", "deploy"),
    "StatefulSet": ("statefulset", "statefulsets", "sts"),
    "DaemonSet": ("daemonset", "daemonsets", "ds"),
    "ReplicaSet": ("replicaset", "replicasets", "rs"),
    "ReplicationController": ("replicationcontroller", "replicationcontrollers", "rc"),
    "Job": ("job", "jobs"),
    "CronJob": ("cronjob", "cronjobs", "cj"),
}
_KINDS_BY_NAME: Final = {
    name: kind for kinds in (KIND_NAMES, WORKLOAD_NAMES) for kind, names in kinds.items() for name in names
}
_KINDS_IN_MESSAGES: Final = ", ".join([*KIND_NAMES, *(names[0] for names in WORKLOAD_NAMES.values())])


class NamedObject(NamedTuple):
    """The object that is asked about. `kind` is a key of `KIND_NAMES` or `WORKLOAD_NAMES`."""

    kind: str
    namespace: str
    name: str

    @property
    def is_workload(self) -> bool:
        """Whether it is a workload, which all autoscalers may govern."""
        return self.kind in WORKLOAD_NAMES


def parse_object_name(words: Sequence[str], namespace: str) -> NamedObject:
    """The object that `KIND NAME` or `KIND/NAME` names; raises `click.UsageError`.

    A name may carry its namespace, as in `pod shop/web-1`; one that contradicts `namespace` is refused.
    """
    head, _, rest = words[0].partition("/")
    name = "/".join(part for part in (rest, *words[1:]) if part)
    if len(words) > 2 or (rest and len(words) > 1):
        raise click.UsageError(f"name one object, as in vpa/web or vpa web, and not {' '.join(words)}")
    kind = find_kind(head)
    if kind is None:
        guess = suggest_name(head, _KINDS_BY_NAME)
        hint = f' (did you mean "{guess}"?)' if guess else ""
        example = "" if name else f"; name an object with its kind, as in vpa/{head}"
        raise click.UsageError(f'there is no kind "{head}"{hint}{example}; the kinds are {_KINDS_IN_MESSAGES}')
    where, _, short = name.rpartition("/")
    if not short or "/" in where:
        raise click.UsageError(f"name the {head}, as in {head}/web")
    if where and namespace not in ("", where):
        raise click.UsageError(f"{name} is in another namespace than -n {namespace}")
    return NamedObject(kind, where or namespace, short)


def find_kind(name: str) -> str | None:
    """The kind of a name, also one with an API group, as in `deployments.apps`; None if there is none."""
    return _KINDS_BY_NAME.get(name.lower().partition(".")[0])
