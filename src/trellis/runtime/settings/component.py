"""Settings that every component has: access to the API server, namespaces, feature gates, boost and leader election.

The names and defaults are upstream's, so that its manifests start ours. One default differs: requests are not limited
unless a limit is set, because the API server protects itself and a limit of 50 a second is what makes upstream slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from trellis.api.feature_gates import FeatureGates
from trellis.base.durations import Duration
from trellis.base.names import check_dns_label
from trellis.base.quantities import Quantity
from trellis.core.boost.boosted_size import BoostSettings
from trellis.kube.discovery import Served
from trellis.kube.flow_control import Rate
from trellis.runtime.settings.declarations import Setting, SettingConflict, Settings

LEASES_LOCK: Final = "leases"


def check_interval(interval: Duration) -> str | None:
    """The rule that an interval breaks, or None. As upstream, it may be as short as the user wants."""
    return None if interval > Duration(0) else "must be longer than 0s"


class AccessSettings(Settings, frozen=True):
    """How the API server is reached, and how hard it is worked."""

    kubeconfig: Annotated[
        str,
        Setting(
            "Kubeconfig to use.",
            why="Unset: that of `$KUBECONFIG`, else the pod's own ServiceAccount, else `~/.kube/config`.",
        ),
    ] = ""
    kube_api_qps: Annotated[
        float | None,
        Setting(
            "Most writes a second.",
            why="Unset, 0 or less: no limit of our own, the API server's priority and fairness decides.",
            unit="writes/s",
            flag="kube-api-qps",
        ),
    ] = None
    kube_api_burst: Annotated[
        float | None,
        Setting(
            "Most writes at once, where `--kube-api-qps` limits them.",
            why="Unset or below 1: as many as may follow within a second.",
            flag="kube-api-burst",
        ),
    ] = None
    read_only: Annotated[
        bool,
        Setting("Decide everything and write nothing.", why="To watch a new version beside the old one."),
    ] = False

    @property
    def write_rate(self) -> Rate | None:
        """The limit of writes per second, and its burst; None if none is set."""
        if self.kube_api_qps is None or self.kube_api_qps <= 0.0:
            return None
        burst = int(self.kube_api_burst or 0.0)
        return Rate(self.kube_api_qps, burst if burst >= 1 else max(1, int(self.kube_api_qps)))


class NamespaceSettings(Settings, frozen=True):
    """The namespaces whose objects are served, whatever their kind."""

    vpa_object_namespace: Annotated[
        str, Setting("Look at the objects of this namespace alone.", why="Empty: all namespaces.")
    ] = ""
    ignored_vpa_object_namespaces: Annotated[
        tuple[str, ...], Setting("Leave the objects of these namespaces alone.", why="None by default.")
    ] = ()

    def conflicts(self) -> Iterator[SettingConflict]:
        """The setting is one namespace, or all but some."""
        if self.vpa_object_namespace and self.ignored_vpa_object_namespaces:
            rule = "--vpa-object-namespace and --ignored-vpa-object-namespaces are mutually exclusive"
            yield SettingConflict("ignored-vpa-object-namespaces", rule)
        for setting, names in (
            ("vpa-object-namespace", (self.vpa_object_namespace,) if self.vpa_object_namespace else ()),
            ("ignored-vpa-object-namespaces", self.ignored_vpa_object_namespaces),
        ):
            for name in names:
                if problem := check_dns_label(name):
                    yield SettingConflict(setting, f"{name} is no name of a namespace: {problem}")

    def covers(self, namespace: str) -> bool:
        """Whether objects of that namespace are served."""
        if self.vpa_object_namespace:
            return namespace == self.vpa_object_namespace
        return namespace not in self.ignored_vpa_object_namespaces


class ScopeSettings(NamespaceSettings, frozen=True):
    """The namespaces whose objects are served, and the feature gates."""

    feature_gates: Annotated[
        FeatureGates,
        Setting("Features to switch on or off.", why="Ours are all on; `AllAlpha=false` gives upstream's defaults."),
    ] = FeatureGates()


class LeaderSettings(Settings, frozen=True):
    """Which of several replicas works."""

    leader_elect: Annotated[
        bool, Setting("Work only while holding a lease.", why="Off, as upstream: one replica needs none.")
    ] = False
    leader_elect_lease_duration: Annotated[
        Duration, Setting("A lease that nobody renews for so long is free.", why="Kubernetes' own figure.")
    ] = Duration.from_seconds(15)
    leader_elect_renew_deadline: Annotated[
        Duration, Setting("A leader that cannot renew for so long stops.", why="Kubernetes' own figure.")
    ] = Duration.from_seconds(10)
    leader_elect_retry_period: Annotated[
        Duration, Setting("How often leaders renew and others look.", why="Kubernetes' own figure.")
    ] = Duration.from_seconds(2)
    leader_elect_resource_lock: Annotated[
        str, Setting("The kind of lock.", why="There is only this one.", choices=(LEASES_LOCK,))
    ] = LEASES_LOCK
    leader_elect_resource_name: Annotated[
        str, Setting("Name of the lease.", why="Upstream's, so that both take turns.")
    ] = ""
    leader_elect_resource_namespace: Annotated[
        str, Setting("Namespace of the lease.", why="Where upstream's manifests run it.")
    ] = "kube-system"

    def conflicts(self) -> Iterator[SettingConflict]:
        """A leader must have time to retry before its deadline, and be silent before its lease is free."""
        if not self.leader_elect_lease_duration > self.leader_elect_renew_deadline:
            yield SettingConflict("leader-elect-lease-duration", "must be longer than --leader-elect-renew-deadline")
        retry = self.leader_elect_retry_period.total_seconds()
        if not self.leader_elect_renew_deadline.total_seconds() > 1.2 * retry > 0:
            yield SettingConflict(
                "leader-elect-renew-deadline", "must be longer than 1.2 times --leader-elect-retry-period"
            )


def check_millicores(quantity: Quantity) -> str | None:
    """The rule that an amount of CPU breaks, or None: it must be whole millicores."""
    return None if quantity.is_whole_milli else "must be a whole number of milli CPUs"


def effective_boost_settings(gates: FeatureGates, most: Quantity | None, served: Served) -> BoostSettings:
    """Whether pods are boosted: a boost that cannot be withdrawn in place would last for the pod's life."""
    enabled = gates.cpu_startup_boost and served.resizes_pods
    return BoostSettings(enabled=enabled, max_cpu=most.milli if most is not None else None)
