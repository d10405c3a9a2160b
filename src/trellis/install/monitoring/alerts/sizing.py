"""Alerts of the sizes of pods: usage, the webhook, its certificate, and changes of running pods."""

from __future__ import annotations

from typing import Final

from trellis.install.monitoring.alerts.alert import INSTALLATION, Alert, AlertGroup, AlertSeverity

_BY_INSTALLATION: Final = f"by ({INSTALLATION})"
_LATENCY: Final = "vpa_admission_controller_admission_latency_seconds"
# As the API server names the webhooks that Trellis registers.
_WEBHOOKS: Final = 'name=~"vpa[.]k8s[.]io|objects[.]autoscaling[.]x-k8s[.]io"'
_DAY: Final = 86400

_WEBHOOK: Final = (
    Alert(
        name="TrellisWebhookUnreachable",
        expression="sum by (cluster, name)\n"
        f"  (increase(apiserver_admission_webhook_fail_open_count{{{_WEBHOOKS}}}[10m])) > 0\n"
        "or\n"
        "sum by (cluster, name) (increase(\n"
        f'  apiserver_admission_webhook_rejection_count{{{_WEBHOOKS},error_type="calling_webhook_error"}}[10m])) > 0',
        lasting="5m",
        severity=AlertSeverity.CRITICAL,
        summary="The API server does not reach the webhook {{ $labels.name }}",
        description='{{ $value | printf "%.0f" }} calls of the API server to the webhook {{ $labels.name }} failed '
        "within 10 minutes. New pods and objects are admitted without a review, or refused with failurePolicy Fail.",
    ),
    Alert(
        name="TrellisWebhookFailing",
        expression=f'sum {_BY_INSTALLATION} (rate({_LATENCY}_count{{status="error"}}[5m]))\n'
        f"  / sum {_BY_INSTALLATION} (rate({_LATENCY}_count[5m])) > 0.05",
        lasting="10m",
        severity=AlertSeverity.CRITICAL,
        summary="Admission reviews fail",
        description="{{ $value | humanizePercentage }} of the admission reviews in {{ $labels.namespace }} end with "
        "an error. The pods and objects concerned are admitted unchanged.",
    ),
    Alert(
        name="TrellisWebhookSlow",
        expression="histogram_quantile(0.99, "
        f"sum by ({INSTALLATION}, le)\n"
        '  (rate(vpa_admission_controller_execution_latency_seconds_bucket{step="total"}[5m]))) > 0.5',
        lasting="10m",
        severity=AlertSeverity.WARNING,
        summary="Admission reviews are slow",
        description="The 99th percentile of admission reviews in {{ $labels.namespace }} is "
        "{{ $value | humanizeDuration }}. Each pod creation waits that long.",
    ),
    Alert(
        name="TrellisWebhookNotRegistered",
        expression=f"max {_BY_INSTALLATION} (trellis_admission_webhook_registered) == 0",
        lasting="5m",
        severity=AlertSeverity.CRITICAL,
        summary="The webhook is not registered",
        description="The webhook configuration is missing or differs from that of the admission controller in "
        "{{ $labels.namespace }}. New pods keep the sizes of their templates.",
    ),
    Alert(
        name="TrellisCertificateExpiring",
        expression=f"min by ({INSTALLATION}, certificate)\n"
        f"  (trellis_admission_certificate_expiry_timestamp_seconds) - time() < 14 * {_DAY}",
        lasting="1h",
        severity=AlertSeverity.WARNING,
        summary="The {{ $labels.certificate }} certificate of the webhook expires",
        description="The {{ $labels.certificate }} certificate of the webhook in {{ $labels.namespace }} expires in "
        "{{ $value | humanizeDuration }}. After that the API server does not call the webhook, and new pods keep the "
        "sizes of their templates.",
    ),
)

_SIZES: Final = (
    Alert(
        name="TrellisUsageStale",
        expression=f"time() - max {_BY_INSTALLATION} (trellis_recommender_newest_sample_timestamp_seconds) > 900\n"
        f'and sum {_BY_INSTALLATION} (vpa_recommender_vpa_objects_count{{matches_pods="true"}}) > 0',
        lasting="5m",
        severity=AlertSeverity.WARNING,
        summary="The recommender gets no usage samples",
        # Before the first sample the value is the age of 1970.
        description="The recommender in {{ $labels.namespace }} has accepted no usage sample for 15 minutes. "
        "Recommendations do not follow usage.",
    ),
    Alert(
        name="TrellisAdmissionAbsent",
        expression=f"max {_BY_INSTALLATION} (trellis_updater_admission_live) == 0",
        lasting="10m",
        severity=AlertSeverity.WARNING,
        summary="The updater evicts no pods, because no admission controller runs",
        description="No admission controller renews the status Lease that the updater in {{ $labels.namespace }} "
        "reads. The updater evicts no pod, because nothing would size its replacement.",
    ),
    Alert(
        name="TrellisEvictionLoop",
        expression=f'sum {_BY_INSTALLATION} (trellis_updater_pods{{reason="EvictionLoop"}}) > 0',
        lasting="10m",
        severity=AlertSeverity.WARNING,
        summary="Evictions have no effect",
        description="{{ $value }} pods governed by the updater in {{ $labels.namespace }} were evicted, and their "
        "replacements have the old requests. The updater evicts them no more.",
    ),
    Alert(
        name="TrellisFrozen",
        # A restart of the updater, or of Prometheus, does not begin the day anew.
        expression=f'sum {_BY_INSTALLATION} (max_over_time(trellis_updater_pods{{reason="Frozen"}}[15m])) > 0',
        lasting="1d",
        severity=AlertSeverity.WARNING,
        summary="Changes to running pods are frozen",
        description="{{ $value }} pods governed by the updater in {{ $labels.namespace }} have been frozen for more "
        "than a day. They do not get recommended sizes, and boosts do not end.",
    ),
    Alert(
        name="TrellisRecommendationsNotApplied",
        expression=f"sum {_BY_INSTALLATION} (vpa_updater_evictable_pods_total)\n"
        f"  + sum {_BY_INSTALLATION} (vpa_updater_in_place_updatable_pods_total) > 0\n"
        "unless\n"
        f"sum {_BY_INSTALLATION} (increase(vpa_updater_evicted_pods_total[6h]))\n"
        f"  + sum {_BY_INSTALLATION} (increase(vpa_updater_in_place_updated_pods_total[6h])) > 0\n"
        # With --read-only and --dry-run, every write is skipped.
        "unless\n"
        f"sum {_BY_INSTALLATION}\n"
        '  (increase(trellis_writes_total{component="updater",result="Skipped"}[6h])) > 0',
        lasting="6h",
        severity=AlertSeverity.WARNING,
        summary="Recommendations are not applied",
        description="{{ $value }} pods governed by the updater in {{ $labels.namespace }} need another size, and it "
        "has changed none for 6 hours.",
    ),
)

SIZING_ALERTS: Final = AlertGroup(name="trellis-sizing", alerts=(*_WEBHOOK, *_SIZES))
