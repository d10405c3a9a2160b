"""Alerts of any component: processes, leadership, passes, informers and writes."""

from __future__ import annotations

from typing import Final

from trellis.install.monitoring.alerts.alert import BY_COMPONENT, INSTALLATION, Alert, AlertGroup, AlertSeverity

_FAILURE_COUNTERS: Final = {
    "admission": "trellis_admission_failures_total",
    "updater": "trellis_updater_plan_failures_total",
    "hvpa": "trellis_hvpa_failures_total",
    "buffers": "trellis_buffers_failures_total",
}


def _internal_errors() -> str:
    """The counters of internal errors have no label of the component: it is added."""
    return "\nor\n".join(
        f'label_replace(sum by ({INSTALLATION}) (increase({counter}[1h])), "component", "{component}", "", "") > 0'
        for component, counter in _FAILURE_COUNTERS.items()
    )


_AVAILABILITY: Final = (
    Alert(
        name="TrellisComponentDown",
        expression=f"group {BY_COMPONENT} (present_over_time(trellis_build_info[1d]))\n"
        f"unless group {BY_COMPONENT} (trellis_build_info)",
        lasting="5m",
        severity=AlertSeverity.CRITICAL,
        summary="{{ $labels.component }} is down",
        description="No replica of {{ $labels.component }} in {{ $labels.namespace }} exports metrics, although one "
        "did in the past day. Nothing does its work.",
    ),
    Alert(
        name="TrellisComponentNotReady",
        expression=f"max {BY_COMPONENT} (trellis_component_ready) == 0",
        lasting="10m",
        severity=AlertSeverity.CRITICAL,
        summary="No replica of {{ $labels.component }} is ready",
        description="Replicas of {{ $labels.component }} in {{ $labels.namespace }} run, and none of them has been "
        "ready for 10 minutes. trellis_component_not_ready has the reason.",
    ),
    Alert(
        name="TrellisComponentRestarting",
        expression=f"sum by ({INSTALLATION}, component, reason)\n"
        "  (increase(trellis_component_restarts_total[1h])) >= 3",
        lasting="0m",
        severity=AlertSeverity.WARNING,
        summary="{{ $labels.component }} restarts again and again",
        description="{{ $labels.component }} in {{ $labels.namespace }} was restarted "
        '{{ $value | printf "%.0f" }} times within an hour, because of {{ $labels.reason }}. Between restarts nothing '
        "does its work.",
    ),
    Alert(
        name="TrellisComponentLeaderless",
        expression=f"max by ({INSTALLATION}, component, name) (trellis_component_leader) == 0",
        lasting="2m",
        severity=AlertSeverity.CRITICAL,
        summary="{{ $labels.component }} has no leader",
        description="Replicas of {{ $labels.component }} in {{ $labels.namespace }} run, and none of them has held "
        "the Lease for 2 minutes. All of them wait.",
    ),
)

_COMPLETED: Final = "trellis_component_last_pass_timestamp_seconds"
_INTERVAL: Final = f"max {BY_COMPONENT} (trellis_component_pass_interval_seconds)"
# Of replicas that share namespaces each one leads, and the one whose last pass is oldest counts. A replica that has
# just taken over has completed none: the one before it counts.
_OLDEST_OF_LEADERS: Final = (
    f"min {BY_COMPONENT} ({_COMPLETED}\n  and on ({INSTALLATION}, component, instance) trellis_component_leader == 1)"
)

_PASSES: Final = (
    Alert(
        name="TrellisPassesLate",
        expression=f"time() - max {BY_COMPONENT} ({_COMPLETED})\n"
        f"  > 3 * {_INTERVAL} + 60\n"
        "or\n"
        f"time() - {_OLDEST_OF_LEADERS}\n"
        f"  > 3 * {_INTERVAL} + 60\n"
        "or\n"
        f"{_INTERVAL}\n"
        f"  unless max {BY_COMPONENT} ({_COMPLETED})",
        lasting="10m",
        severity=AlertSeverity.CRITICAL,
        summary="{{ $labels.component }} completes no pass",
        description="{{ $labels.component }} in {{ $labels.namespace }} has completed no pass for more than three "
        "intervals, or one of the replicas that share its namespaces has not. Decisions are out of date, or are not "
        "executed.",
    ),
    Alert(
        name="TrellisPassesFailing",
        expression=f"max {BY_COMPONENT} (trellis_component_failed_passes) >= 3",
        lasting="5m",
        severity=AlertSeverity.WARNING,
        summary="Passes of {{ $labels.component }} fail",
        description="The last {{ $value }} passes of {{ $labels.component }} in {{ $labels.namespace }} failed. Its "
        "log has the error.",
    ),
    Alert(
        name="TrellisPassesSlow",
        expression=f"max {BY_COMPONENT} (trellis_component_last_pass_duration_seconds)\n"
        f"  > max {BY_COMPONENT} (trellis_component_pass_interval_seconds)",
        lasting="30m",
        severity=AlertSeverity.WARNING,
        summary="Passes of {{ $labels.component }} take longer than their interval",
        description="A pass of {{ $labels.component }} in {{ $labels.namespace }} takes "
        "{{ $value | humanizeDuration }}, longer than the interval between passes. Decisions come later than "
        "configured.",
    ),
    Alert(
        name="TrellisInternalErrors",
        expression=_internal_errors(),
        lasting="0m",
        severity=AlertSeverity.WARNING,
        summary="{{ $labels.component }} had internal errors",
        description='{{ $labels.component }} in {{ $labels.namespace }} had {{ $value | printf "%.0f" }} internal '
        "errors within an hour. The objects concerned were left unchanged. Each one is a bug, and in the log.",
    ),
)

_CLUSTER_STATE: Final = (
    Alert(
        name="TrellisInformerDisconnected",
        expression=f"min by ({INSTALLATION}, component, resource) (trellis_informer_connected) == 0",
        lasting="5m",
        severity=AlertSeverity.WARNING,
        summary="{{ $labels.component }} has lost its watch of {{ $labels.resource }}",
        description="A replica of {{ $labels.component }} in {{ $labels.namespace }} has had no watch of "
        "{{ $labels.resource }} for 5 minutes. It decides on an old state of the cluster, or skips its passes.",
    ),
    Alert(
        name="TrellisKindUnreadable",
        expression=f"max by ({INSTALLATION}, component, resource) (trellis_unseen_resources) == 1",
        lasting="15m",
        severity=AlertSeverity.INFO,
        summary="{{ $labels.component }} may not read {{ $labels.resource }}",
        description="RBAC does not allow {{ $labels.component }} in {{ $labels.namespace }} to read "
        "{{ $labels.resource }}. It works without, and the features that need them have no effect.",
    ),
    Alert(
        name="TrellisObjectsUnreadable",
        expression=f"max by ({INSTALLATION}, component, resource) (trellis_informer_rejected_objects) > 0",
        lasting="15m",
        severity=AlertSeverity.WARNING,
        summary="{{ $labels.component }} cannot decode some {{ $labels.resource }}",
        description="{{ $value }} objects of {{ $labels.resource }} cannot be decoded by {{ $labels.component }} in "
        "{{ $labels.namespace }}. They are ignored as if they did not exist.",
    ),
    Alert(
        name="TrellisWritesFailing",
        expression=f"sum by ({INSTALLATION}, component, resource, action, result)\n"
        '  (increase(trellis_writes_total{result=~"Forbidden|Throttled|Failed"}[15m]))\n'
        f"/ ignoring (result) group_left sum by ({INSTALLATION}, component, resource, action)\n"
        "  (increase(trellis_writes_total[15m])) > 0.1",
        lasting="15m",
        severity=AlertSeverity.WARNING,
        summary="Writes of {{ $labels.component }} to {{ $labels.resource }} fail",
        description="{{ $value | humanizePercentage }} of the writes {{ $labels.action }} of {{ $labels.component }} "
        "in {{ $labels.namespace }} to {{ $labels.resource }} end with {{ $labels.result }}. Its decisions are not "
        "executed.",
    ),
)

COMPONENT_ALERTS: Final = AlertGroup(name="trellis-components", alerts=(*_AVAILABILITY, *_PASSES, *_CLUSTER_STATE))
