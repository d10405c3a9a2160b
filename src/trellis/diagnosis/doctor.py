"""The diagnosis of a cluster, before and after an installation: all checks, with what to do."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trellis.diagnosis.checks.access import AccessFacts, check_account_access, check_user_access
from trellis.diagnosis.checks.definitions import DefinitionsByName, check_definitions
from trellis.diagnosis.checks.namespace import NamespaceFacts, check_namespace
from trellis.diagnosis.checks.other_webhooks import ForeignWebhook, check_other_webhooks
from trellis.diagnosis.checks.server import check_clocks, check_gates, check_server
from trellis.diagnosis.checks.usage_sources import PrometheusFacts, check_prometheus
from trellis.diagnosis.findings import ClusterCheck, Level, choose_exit_status
from trellis.diagnosis.installation import list_component_states
from trellis.diagnosis.status import ClusterFacts, judge_cluster
from trellis.diagnosis.unread import Unread


class DoctorFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a diagnosis is made from."""

    cluster: ClusterFacts
    namespace: NamespaceFacts
    definitions: DefinitionsByName | Unread = {}
    other_webhooks: Sequence[ForeignWebhook] | Unread = ()
    access: AccessFacts = AccessFacts()
    prometheus: PrometheusFacts | None = None


class ClusterDiagnosis(msgspec.Struct, frozen=True):
    """The results of all checks. `is_installed` is whether any component was found."""

    time: float
    server_version: str
    is_installed: bool
    results: tuple[ClusterCheck, ...]

    def choose_exit_status(self, fail_on: Level) -> int:
        """The exit status of the command."""
        return choose_exit_status(self.results, fail_on)


def diagnose(facts: DoctorFacts) -> ClusterDiagnosis:
    """All checks: of the cluster first, then of the installation."""
    cluster = facts.cluster
    states = list_component_states(cluster.installation, cluster.now)
    is_installed = any(state.is_running for state in states)
    is_ours = any(workload.is_ours for workload in cluster.installation.workloads)
    installed = judge_cluster(cluster, is_required=False)
    by_name = {result.name: result for result in installed}
    metrics_api = by_name.pop("metrics API")
    results = (
        check_server(cluster.server),
        check_gates(cluster.server),
        check_clocks(cluster.server),
        check_definitions(facts.definitions, is_installed=is_ours),
        metrics_api,
        check_prometheus(facts.prometheus),
        check_other_webhooks(facts.other_webhooks),
        check_namespace(facts.namespace, cluster.installation),
        check_user_access(facts.access),
        *by_name.values(),
        check_account_access(facts.access),
    )
    return ClusterDiagnosis(cluster.now, cluster.server.version, is_installed, results)
