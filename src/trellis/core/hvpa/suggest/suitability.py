"""Reasons why buckets would not help a workload."""

from __future__ import annotations

import numpy as np

from trellis.base.names import check_dns_label, check_dns_subdomain
from trellis.base.reasons import Reason
from trellis.core.hvpa.suggest.history import SuggestionRules, WorkloadHistory
from trellis.core.usage.columns import FloatColumn

NOT_SCALED = Reason("NotScaled", "The number of replicas of workloads of this kind cannot be changed.")
INVALID_NAME = Reason("InvalidName", "Its name or namespace is not valid in Kubernetes.")
TOO_LITTLE_HISTORY_FOR_BUCKETS = Reason(
    "TooLittleHistoryForBuckets", "There is too little usage history to propose buckets."
)
ONE_REPLICA = Reason("OneReplica", "It always had one replica, so it is unknown whether several could share its work.")
STEADY_LOAD = Reason("SteadyLoad", "Its usage is about constant: one size is enough, and a VPA finds it.")
NO_SAVINGS = Reason(
    "NoSavings", "Buckets would not have been cheaper, and would not have reduced usage above requests."
)
REPLICA_TOO_LARGE = Reason("ReplicaTooLarge", "The base usage of each replica exceeds the maximum size of a replica.")

# Kinds with a scale subresource whose pods do the same work.
_SCALED = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "Rollout", "StatefulSet"})
_QUIET, _BUSY = 5.0, 99.5  # percentiles: spikes are what replicas are for


def is_scaled(kind: str, api_version: str) -> bool:
    """Whether workloads of a kind can be scaled."""
    return kind in _SCALED and bool(api_version)


def find_unsuitable(workload: WorkloadHistory, rules: SuggestionRules) -> Reason | None:
    """Why there is nothing to propose; None if there is."""
    if not is_scaled(workload.kind, workload.api_version):
        return NOT_SCALED
    if check_dns_subdomain(workload.name) or check_dns_label(workload.namespace):
        return INVALID_NAME
    history = workload.usage.complete_samples
    if history.seconds < rules.min_seconds:
        return TOO_LITTLE_HISTORY_FOR_BUCKETS
    may_have = workload.hpa.most if workload.hpa is not None else 1
    if max(int(history.pods.max()), workload.replicas, may_have) < 2:
        return ONE_REPLICA
    if _swing(history.cpu) < rules.min_variation and _swing(history.memory) < rules.min_variation:
        return STEADY_LOAD
    return None


def _swing(used: FloatColumn) -> float:
    quiet, busy = np.percentile(used, [_QUIET, _BUSY])
    if not busy:
        return 1.0
    return float(busy / quiet) if quiet else np.inf
