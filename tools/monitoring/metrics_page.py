"""The reference page of metrics: every metric of every component, with type, unit, labels and their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from pages import NOTE
from trellis.controllers.admission.metrics import ADMISSION_METRICS
from trellis.controllers.buffers.metrics import BUFFER_METRICS
from trellis.controllers.hvpa.metrics import HVPA_METRICS
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.provider_server.metrics import PROVIDER_SERVER_METRICS
from trellis.controllers.recommender.metrics import RECOMMENDER_METRICS
from trellis.controllers.updater.metrics import UPDATER_METRICS
from trellis.runtime.manager.metrics import PROCESS_METRICS
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.component_metrics import READINESS_METRICS, list_exposed_labels
from trellis.runtime.telemetry.metrics import Label, Metrics, Spec

METRICS_BY_COMPONENT: Final[dict[str, tuple[Spec, ...]]] = {
    "recommender": RECOMMENDER_METRICS,
    "admission": ADMISSION_METRICS,
    "updater": UPDATER_METRICS,
    "hvpa": HVPA_METRICS,
    "buffers": BUFFER_METRICS,
    "nodes": NODE_METRICS,
    "node-provider-server": PROVIDER_SERVER_METRICS,
}

# The unit of a metric by the end of its name; the first that fits.
_UNITS: Final = {
    "_timestamp_seconds": "Unix time in seconds",
    "_start_time_seconds": "Unix time in seconds",
    "_seconds": "seconds",
    "_bytes": "bytes",
    "_cores": "cores",
    "_per_hour": "price per hour",
    "_relative_diffs": "ratio",
    "_recommendation_changes": "ratio",
    "_relative_difference": "ratio",
    "_info": "1",
    "_leader": "0 or 1",
    "_synced": "0 or 1",
    "_connected": "0 or 1",
    "_unseen_resources": "0 or 1",
    "_live": "0 or 1",
    "_registered": "0 or 1",
    "_ready": "0 or 1",
}
_COUNT: Final = "count"

# The title of the metrics of `trellis run`.
SEVERAL: Final = "A process of several components"

_INTRODUCTION: Final = """\
Each component serves its metrics at `/metrics` of the port that its flag `--address` names, in Prometheus's text
format.

A metric whose name begins with `vpa_` is upstream's: the name, the labels and the meaning are those of upstream's VPA,
so that its dashboards and alerts keep working. The names that begin with `trellis_` are Trellis' own.

A gauge or a counter without labels is always there. One with labels is there once it has a value.
"""


def build_metrics_page() -> str:
    """Every metric: those of every component first, then those of each component, then those of every process."""
    lines = [NOTE, "# Metrics\n", _INTRODUCTION]
    lines += ["## Every component\n", *_table((*CLUSTER_METRICS, *READINESS_METRICS)), ""]
    for component, specs in METRICS_BY_COMPONENT.items():
        own = [spec for spec in specs if spec not in CLUSTER_METRICS]
        lines += [f"## {component}\n", *_table(own), ""]
    several = [spec for spec in PROCESS_METRICS if spec not in READINESS_METRICS]
    lines += [f"## {SEVERAL}\n", "Those of `trellis run`.\n", *_table(several), ""]
    lines += [
        "## Every process\n",
        "Those of the Prometheus client library for Python, on Linux.\n",
        *_process_table(),
        "",
    ]
    return "\n".join(lines)


def find_unit(name: str) -> str:
    """The unit of a metric."""
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), _COUNT)


def list_process_metrics() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Name, type, labels and help of the metrics that every process has."""
    for family in text_string_to_metric_families(Metrics(()).format_text().decode()):
        sample = family.samples[0]
        yield sample.name, family.type, tuple(sample.labels), family.documentation


def _table(specs: Iterable[Spec]) -> Iterator[str]:
    yield "| metric | type | unit | labels | meaning | upstream |"
    yield "|---|---|---|---|---|---|"
    for spec in specs:
        kind = type(spec).__name__.removesuffix("Spec").lower()
        labels = "; ".join(map(_describe_label, list_exposed_labels(spec))) or "none"
        upstream = "the same name" if spec.name.startswith("vpa_") else ""
        yield f"| `{spec.name}` | {kind} | {find_unit(spec.name)} | {labels} | {spec.help} | {upstream} |"


def _describe_label(label: str) -> str:
    if not isinstance(label, Label) or not (label.values or label.meaning):
        raise SystemExit(f"the values of the label {label} are not declared: use `Label`")
    values = ", ".join(f"`{value}`" if value else "empty" for value in label.values)
    return f"`{label}`: {values or label.meaning}"


def _process_table() -> Iterator[str]:
    yield "| metric | type | unit | labels | meaning |"
    yield "|---|---|---|---|---|"
    for name, kind, labels, text in list_process_metrics():
        named = ", ".join(f"`{label}`" for label in labels) or "none"
        yield f"| `{name}` | {kind} | {find_unit(name.removesuffix('_total'))} | {named} | {text.rstrip('.')}. |"
