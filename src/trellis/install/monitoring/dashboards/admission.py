"""The dashboard of the admission controller."""

from __future__ import annotations

from typing import Final

from trellis.install.monitoring.dashboards.panel import (
    NONE_WANTED,
    ONE_WANTED,
    Dashboard,
    Row,
    Unit,
    graph,
    quantiles,
    stat,
)
from trellis.install.monitoring.dashboards.shared_rows import availability_row, cluster_state_row, process_row

_COMPONENT: Final = "admission"
_STEPS: Final = "vpa_admission_controller_execution_latency_seconds"
_LATENCY: Final = "vpa_admission_controller_admission_latency_seconds"

_REVIEWS: Final = Row(
    "Reviews",
    (
        graph(
            "Reviews",
            "Admission reviews by resource and result.",
            (
                "sum by (resource, reason) (rate(trellis_admission_reviews_total{*}[$__rate_interval]))",
                "{{resource}} {{reason}}",
            ),
            unit=Unit.PER_SECOND,
            width=12,
        ),
        graph(
            "Latency of reviews",
            "Time from the request to the answer, as the admission controller measures it.",
            *quantiles(_STEPS, 'step="total"'),
            unit=Unit.SECONDS,
            width=12,
        ),
        graph(
            "Steps of a review",
            "Mean time spent in each step of a review.",
            (
                f"sum by (step) (rate({_STEPS}_sum{{*}}[$__rate_interval]))"
                f" / sum by (step) (rate({_STEPS}_count{{*}}[$__rate_interval]))",
                "{{step}}",
            ),
            unit=Unit.SECONDS,
        ),
        graph(
            "Admitted pods",
            "Admitted pods, by whether they were changed.",
            (
                "sum by (applied) (rate(vpa_admission_controller_admission_pods_total{*}[$__rate_interval]))",
                "changed: {{applied}}",
            ),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Failed reviews",
            "Reviews that ended with an error, internal errors, and requests that are not reviews.",
            (f'sum(rate({_LATENCY}_count{{*,status="error"}}[$__rate_interval])) or 0', "errors"),
            ("sum(rate(trellis_admission_failures_total{*}[$__rate_interval]))", "internal errors"),
            (
                "sum by (code) (rate(trellis_admission_refused_requests_total{*}[$__rate_interval])) or 0",
                "HTTP status {{code}}",
            ),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Lookups of owners",
            "Lookups of pod owners that the cache did not have, by result.",
            (
                "sum by (result) (rate(trellis_admission_lookups_total{*}[$__rate_interval])) or 0",
                "{{result}}",
            ),
            unit=Unit.PER_SECOND,
        ),
        graph(
            "Governors",
            "VPAs and Hvpas that size or boost pods.",
            ("max by (kind) (trellis_admission_governors{*})", "{{kind}}"),
        ),
        graph(
            "Connections",
            "Open connections of the API server to the webhook.",
            ("sum(trellis_admission_connections{*})", ""),
        ),
    ),
)

_WEBHOOK: Final = Row(
    "Webhook",
    (
        stat(
            "Registered",
            "Whether the webhook configuration is up to date.",
            ("max(trellis_admission_webhook_registered{*})", ""),
            unit=Unit.YES_NO,
            thresholds=ONE_WANTED,
        ),
        stat(
            "Certificates expire in",
            "Time until the server certificate expires, and until the first CA in the webhook configuration does.",
            (
                "min by (certificate) (trellis_admission_certificate_expiry_timestamp_seconds{*}) - time()",
                "{{certificate}}",
            ),
            unit=Unit.SECONDS,
            width=8,
        ),
        stat(
            "Refused certificates",
            "New certificates that were refused in favor of the previous one.",
            ('sum(trellis_admission_certificate_loads_total{*,result="refused"}) or 0', ""),
            thresholds=NONE_WANTED,
        ),
        graph(
            "Calls that failed at the API server",
            "Calls of the webhook that failed, as the API server counts them, if Prometheus scrapes it: an object is "
            "then admitted without a review, or refused with failurePolicy Fail.",
            (
                "sum by (name) (rate(apiserver_admission_webhook_fail_open_count"
                '{name=~"vpa[.]k8s[.]io|objects[.]autoscaling[.]x-k8s[.]io"}[$__rate_interval]))',
                "{{name}}",
            ),
            unit=Unit.PER_SECOND,
        ),
    ),
)

ADMISSION_DASHBOARD: Final = Dashboard(
    name="trellis-admission",
    title="Trellis / Admission controller",
    description="Reviews of new pods and objects, their latency, and the webhook with its certificates.",
    rows=(
        availability_row(_COMPONENT, passes=False),
        _REVIEWS,
        _WEBHOOK,
        cluster_state_row(_COMPONENT),
        process_row(_COMPONENT),
    ),
)
