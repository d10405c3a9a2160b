"""Builds PromQL: upstream's selectors and metrics, for a group of namespaces at a time.

Two things differ from upstream's queries. Several namespaces are named at once, so that the number of queries grows
with neither pods nor VPAs. And what Prometheus returns is reduced to the three labels that name a container: one that
was restarted has a series for each of its lives, and where they overlap the highest counts. The responses are also a
quarter as long for it. Where a group is too much, it is halved.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, TypeVar

from trellis.base.errors import PrometheusLimitExceeded
from trellis.sources.prometheus.settings import PrometheusSettings

# A name of a namespace has no other characters. What has is taken literally all the same.
_SPECIAL: Final = re.compile(r"[^A-Za-z0-9_-]")


def build_cpu_query(settings: PrometheusSettings, namespaces: Sequence[str] | None, window: str) -> str:
    """CPU in cores, averaged over a window."""
    return _aggregate_by_container(
        settings, f"rate({settings.history_cpu_metric}{{{_build_selector(settings, namespaces)}}}[{window}])"
    )


def build_memory_query(settings: PrometheusSettings, namespaces: Sequence[str] | None) -> str:
    """Memory in bytes."""
    return _aggregate_by_container(
        settings, f"{settings.history_memory_metric}{{{_build_selector(settings, namespaces)}}}"
    )


def build_memory_peak_query(settings: PrometheusSettings, namespaces: Sequence[str] | None, window: str) -> str:
    """Memory in bytes, the most within a window: what lies between two samples is not lost."""
    used = f"{settings.history_memory_metric}{{{_build_selector(settings, namespaces)}}}[{window}]"
    return _aggregate_by_container(settings, f"max_over_time({used})")


def build_memory_time_query(settings: PrometheusSettings, namespaces: Sequence[str] | None) -> str:
    """The time of the memory sample; the time of a response is that of the query."""
    measured = f"timestamp({settings.history_memory_metric}{{{_build_selector(settings, namespaces)}}})"
    return _aggregate_by_container(settings, measured)


def get_container_labels(settings: PrometheusSettings) -> tuple[str, str, str]:
    """The labels that name namespace, pod and container."""
    return settings.container_namespace_label, settings.container_pod_name_label, settings.container_name_label


def group_namespaces(namespaces: Collection[str], most: int) -> list[tuple[str, ...]]:
    """The namespaces in the order of their names, in groups of limited size."""
    ordered = sorted(set(namespaces))
    return [tuple(ordered[first : first + most]) for first in range(0, len(ordered), most)]


def _aggregate_by_container(settings: PrometheusSettings, expression: str) -> str:
    return f"max by ({', '.join(get_container_labels(settings))}) ({expression})"


def _build_selector(settings: PrometheusSettings, namespaces: Sequence[str] | None) -> str:
    """The containers of these namespaces, of all if there are none. cAdvisor's own pauses and sums are left out."""
    namespace, pod, name = get_container_labels(settings)
    matchers = (
        [f"job={quote_string(settings.prometheus_cadvisor_job_name)}"] if settings.prometheus_cadvisor_job_name else []
    )
    matchers += [f'{pod}=~".+"', f'{name}!="POD"', f'{name}!=""']
    if namespaces is not None:
        matchers.append(match_any(namespace, namespaces))
    return ", ".join(matchers)


def match_any(label: str, names: Sequence[str]) -> str:
    """A matcher: the label has one of these values."""
    return (
        f"{label}={quote_string(names[0])}"
        if len(names) == 1
        else f"{label}=~{quote_string('|'.join(map(_escape, names)))}"
    )


def quote_string(text: str) -> str:
    """Text as a string of PromQL."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda match: "\\" + match[0], text)


T = TypeVar("T")


async def query_in_groups(
    namespaces: Collection[str], most: int, query_group: Callable[[tuple[str, ...]], Awaitable[T]]
) -> list[T]:
    """The result for each group; raises `PrometheusError`, `PrometheusTooMuch` only if one namespace is too much."""
    waiting, results = deque(group_namespaces(namespaces, most)), []
    while waiting:
        group = waiting.popleft()
        try:
            results.append(await query_group(group))
        except PrometheusLimitExceeded:
            if len(group) < 2:
                raise
            middle = len(group) // 2
            waiting.extendleft((group[middle:], group[:middle]))
    return results
