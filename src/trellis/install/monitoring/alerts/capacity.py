"""Alerts of capacity: Buffers and node groups."""

from __future__ import annotations

from typing import Final

from trellis.install.monitoring.alerts.alert import INSTALLATION, Alert, AlertGroup, AlertSeverity

_BY_BUFFER: Final = f"by ({INSTALLATION}, buffer_namespace, buffer_name)"

CAPACITY_ALERTS: Final = AlertGroup(
    name="trellis-capacity",
    alerts=(
        Alert(
            name="TrellisBufferNotProvisioned",
            # The Buffer controller observes provisioning where no node autoscaler of Trellis runs.
            expression=f"max {_BY_BUFFER} (trellis_nodes_buffer_chunks)\n"
            f"  > max {_BY_BUFFER} (trellis_nodes_buffer_provisioned_chunks)\n"
            "or\n"
            f"max {_BY_BUFFER} (trellis_buffers_chunks)\n"
            f"  > max {_BY_BUFFER} (trellis_buffers_provisioned_chunks)",
            lasting="15m",
            severity=AlertSeverity.WARNING,
            summary="The Buffer {{ $labels.buffer_namespace }}/{{ $labels.buffer_name }} is not provisioned",
            description="Not all of the {{ $value }} chunks (virtual pods) of the Buffer "
            "{{ $labels.buffer_namespace }}/{{ $labels.buffer_name }} have fit on ready nodes for 15 minutes. Pods "
            "that count on its spare capacity wait for new nodes.",
        ),
        Alert(
            name="TrellisNodeGroupBackedOff",
            # Between two failed orders the group may be tried again for a moment.
            expression=f"max by ({INSTALLATION}, group)\n"
            "  (max_over_time(trellis_nodes_group_backoff_seconds[10m])) > 0",
            lasting="15m",
            severity=AlertSeverity.WARNING,
            summary="The node group {{ $labels.group }} is backed off",
            description="Orders of nodes from the group {{ $labels.group }} have failed for more than 15 minutes, and "
            "none is tried for up to {{ $value | humanizeDuration }}. Pending pods get nodes of other groups, or none.",
        ),
        Alert(
            name="TrellisNodeProviderFailing",
            expression=f"sum by ({INSTALLATION}, call, reason)\n"
            "  (increase(trellis_nodes_provider_failures_total[15m])) > 3",
            lasting="10m",
            severity=AlertSeverity.WARNING,
            summary="The provider of nodes fails",
            description='{{ $value | printf "%.0f" }} calls {{ $labels.call }} to the provider of nodes failed within '
            "15 minutes with {{ $labels.reason }}. Without an answer no node is ordered and none is removed.",
        ),
    ),
)
