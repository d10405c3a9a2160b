"""Which workloads are asked about? By namespace, label and kind; and which Jobs are one workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from trellis.base.errors import InvalidInput
from trellis.base.names import why_not_label_key
from trellis.base.selectors import Selector, parse_selector

# What people call them on a command line, beside their names and plurals.
_SHORT: Final = {
    "cj": "cronjob",
    "deploy": "deployment",
    "ds": "daemonset",
    "po": "pod",
    "rc": "replicationcontroller",
    "rs": "replicaset",
    "sts": "statefulset",
}


class Choice(msgspec.Struct, frozen=True):
    """Everything, unless somebody said otherwise. A pattern that begins with `!` takes namespaces out again.

    `kinds` are in lower case. Jobs that nobody but a person or a pipeline made count as one workload if they have the
    same value of one of `job_labels`, the first of them that they have.
    """

    namespaces: tuple[str, ...] = ()
    selector: Selector = Selector.everything()
    kinds: frozenset[str] = frozenset()
    job_labels: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        namespaces: Sequence[str] = (),
        selector: str = "",
        kinds: Sequence[str] = (),
        job_labels: Sequence[str] = (),
    ) -> Choice:
        """From what was written; raises `InvalidInput`."""
        for key in job_labels:
            if why := why_not_label_key(key):
                raise InvalidInput(key, f"is no key of a label: {why}")
        return cls(
            tuple(namespaces),
            parse_selector(selector) if selector else Selector.everything(),
            frozenset(_kind(each) for each in kinds),
            tuple(job_labels),
        )

    def covers(self, namespace: str) -> bool:
        """Whether it is one of the namespaces."""
        wanted = [pattern for pattern in self.namespaces if not pattern.startswith("!")]
        if wanted and not any(fnmatchcase(namespace, pattern) for pattern in wanted):
            return False
        return not any(fnmatchcase(namespace, pattern[1:]) for pattern in self.namespaces if pattern.startswith("!"))

    def wants(self, kind: str, labels: Mapping[str, str]) -> bool:
        """Whether a workload in one of them is asked about."""
        return (not self.kinds or kind.lower() in self.kinds) and self.selector.matches(labels)

    @property
    def named(self) -> tuple[str, ...]:
        """The namespaces that are asked about by their names alone; none where a pattern may mean others too."""
        if not self.namespaces or any(set(pattern) & set("*?[!") for pattern in self.namespaces):
            return ()
        return tuple(sorted(set(self.namespaces)))


def _kind(written: str) -> str:
    """`Deployments`, `deployment` and `deploy` are one kind; one that nobody knows is taken as it is."""
    kind = written.strip().lower()
    if not kind:
        raise InvalidInput(written, "is no kind")
    kind = _SHORT.get(kind, kind)
    return kind[:-1] if kind.endswith("s") and not kind.endswith("ss") and kind[:-1] in _PLURALS else kind


_PLURALS: Final = frozenset({*_SHORT.values(), "job", "rollout"})
