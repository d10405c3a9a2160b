"""Rows that the dashboards of all components have: availability, passes, cluster state, writes and the process."""

from __future__ import annotations

from trellis.install.monitoring.dashboards.panel import NONE_WANTED, ONE_WANTED, Row, Unit, graph, stat


def availability_row(component: str, *, passes: bool = True) -> Row:
    """Whether the component works; `passes` is whether it has passes over all objects."""
    only = f'{{*,component="{component}"}}'
    panels = [
        stat(
            "Ready replicas",
            "Replicas whose readiness checks pass.",
            (f"sum(trellis_component_ready{only})", ""),
            thresholds=ONE_WANTED,
        ),
        stat(
            "Leaders",
            "Replicas that hold a Lease of the component; each name that a component serves has one.",
            (f"sum(trellis_component_leader{only})", ""),
            thresholds=ONE_WANTED,
        ),
        stat(
            "Version",
            "Version of Trellis.",
            (f"max by (version) (trellis_build_info{only})", "{{version}}"),
            shows_name=True,
        ),
    ]
    if passes:
        panels += [
            stat(
                "Last pass",
                "Time since a replica last completed a pass over all objects.",
                (f"time() - max(trellis_component_last_pass_timestamp_seconds{only})", ""),
                unit=Unit.SECONDS,
            ),
            stat(
                "Duration of the last pass",
                "Duration of the last successful pass.",
                (f"max(trellis_component_last_pass_duration_seconds{only})", ""),
                unit=Unit.SECONDS,
            ),
            stat(
                "Failed passes",
                "Passes that failed since the last successful one.",
                (f"max(trellis_component_failed_passes{only})", ""),
                thresholds=NONE_WANTED,
            ),
        ]
    return Row("Availability", tuple(panels))


def cluster_state_row(component: str) -> Row:
    """What the component knows of the cluster, and what it writes."""
    only = f'component="{component}"'
    return Row(
        "Cluster state and writes",
        (
            graph(
                "Objects in caches",
                "Objects of each kind in the caches of the informers, of the replica that has most.",
                (f"max by (resource) (trellis_informer_objects{{*,{only}}})", "{{resource}}"),
            ),
            graph(
                "Age of the last message",
                "Time since the API server last sent anything on a watch. Bookmarks arrive about once a minute.",
                (f"max by (resource) (trellis_informer_contact_age_seconds{{*,{only}}})", "{{resource}}"),
                unit=Unit.SECONDS,
            ),
            graph(
                "Problems of caches",
                "Informers without a watch, undecodable objects, and kinds that RBAC does not allow to read.",
                (f"sum(trellis_informer_connected{{*,{only}}} == bool 0)", "without a watch"),
                (f"sum(trellis_informer_rejected_objects{{*,{only}}})", "undecodable objects"),
                (f"sum(trellis_unseen_resources{{*,{only}}}) or 0", "unreadable kinds"),
            ),
            graph(
                "Writes",
                "Writes to the API server by kind of object and action.",
                (
                    f"sum by (resource, action) (rate(trellis_writes_total{{*,{only}}}[$__rate_interval]))",
                    "{{action}} {{resource}}",
                ),
                unit=Unit.PER_SECOND,
                width=12,
            ),
            graph(
                "Writes that were not applied",
                "Writes by result. Now and then a Conflict or Gone is normal: another writer was faster.",
                (
                    "sum by (result) (rate("
                    f'trellis_writes_total{{*,{only},result!="Applied"}}[$__rate_interval])) or 0',
                    "{{result}}",
                ),
                unit=Unit.PER_SECOND,
                width=12,
            ),
        ),
    )


def process_row(component: str) -> Row:
    """Memory and CPU of the processes that run the component; one process may run several."""
    only = f'(trellis_build_info{{*,component="{component}"}})'
    return Row(
        "Processes",
        (
            graph(
                "Memory",
                "Resident memory of each process that runs this component; one process may run several components.",
                (f"process_resident_memory_bytes{{*}} and on (job, instance) {only}", "{{instance}}"),
                unit=Unit.BYTES,
            ),
            graph(
                "CPU",
                "CPU that each process uses.",
                (
                    f"rate(process_cpu_seconds_total{{*}}[$__rate_interval]) and on (job, instance) {only}",
                    "{{instance}}",
                ),
                unit=Unit.CORES,
            ),
            graph(
                "Open file descriptors",
                "Open file descriptors of each process, connections included.",
                (f"process_open_fds{{*}} and on (job, instance) {only}", "{{instance}}"),
            ),
        ),
    )
