"""Settings that every component has: API access, namespaces, feature gates, boosts and leader election.

The names and defaults are upstream's, so that its manifests start Trellis. One default differs: writes are not limited
unless a limit is set, because the API server protects itself and a limit of 50 a second is what makes upstream slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final

from trellis.api.feature_gates import FeatureGates
from trellis.base.durations import Duration
from trellis.base.names import check_dns_label
from trellis.base.quantities import Quantity
from trellis.core.boost.boosted_size import BoostSettings
from trellis.kube.discovery import Served
from trellis.kube.flow_control import Rate
from trellis.runtime.settings.declarations import Reload, Setting, SettingConflict, Settings

LEASES_LOCK: Final = "leases"


def check_interval(interval: Duration) -> str | None:
    """The rule that an interval breaks, or None. As upstream, there is no lower limit but 0s."""
    return None if interval > Duration(0) else "must be longer than 0s"


class AccessSettings(Settings, frozen=True):
    """Connection to the API server, and the limits of writes to it."""

    title: ClassVar[str] = "API access"

    kubeconfig: Annotated[
        str,
        Setting(
            "Path of the kubeconfig of the cluster.",
            why="Unset: `$KUBECONFIG`, else the ServiceAccount of the pod, else `~/.kube/config`.",
            of_process=True,
            reload=Reload.RESTART_OF_PROCESS,
        ),
    ] = ""
    context: Annotated[
        str,
        Setting(
            "Context of the kubeconfig to use.",
            why="Unset: its current context.",
            of_process=True,
            reload=Reload.RESTART_OF_PROCESS,
        ),
    ] = ""
    kube_api_qps: Annotated[
        float | None,
        Setting(
            "Limit of writes per second to the API server.",
            why="Unset, 0 or less: no limit; priority and fairness protect the API server.",
            unit="writes/s",
            flag="kube-api-qps",
        ),
    ] = None
    kube_api_burst: Annotated[
        float | None,
        Setting(
            "Burst of writes allowed by `--kube-api-qps`.",
            why="Unset or below 1: the writes of one second.",
            flag="kube-api-burst",
        ),
    ] = None
    read_only: Annotated[
        bool,
        Setting(
            "Compute all decisions and write nothing to the cluster.",
            why="To compare a new version with the one that runs.",
        ),
    ] = False

    @property
    def write_rate(self) -> Rate | None:
        """The limit of writes per second, and its burst; None if none is set."""
        if self.kube_api_qps is None or self.kube_api_qps <= 0.0:
            return None
        burst = int(self.kube_api_burst or 0.0)
        return Rate(self.kube_api_qps, burst if burst >= 1 else max(1, int(self.kube_api_qps)))


class NamespaceSettings(Settings, frozen=True):
    """Namespaces whose objects are served."""

    title: ClassVar[str] = "Namespaces"

    vpa_object_namespace: Annotated[
        tuple[str, ...],
        Setting(
            "Namespaces of the objects to serve, separated by commas. Each is listed and watched by itself, for which "
            "Roles in these namespaces suffice.",
            why="Empty: all namespaces.",
            letter="n",
        ),
    ] = ()
    ignored_vpa_object_namespaces: Annotated[
        tuple[str, ...],
        Setting("Namespaces whose objects are ignored; excludes `--vpa-object-namespace`.", why="None by default."),
    ] = ()

    def conflicts(self) -> Iterator[SettingConflict]:
        """The scope is some namespaces, or all but the ignored ones."""
        if self.vpa_object_namespace and self.ignored_vpa_object_namespaces:
            rule = "--vpa-object-namespace and --ignored-vpa-object-namespaces are mutually exclusive"
            yield SettingConflict("ignored-vpa-object-namespaces", rule)
        for setting, names in (
            ("vpa-object-namespace", self.vpa_object_namespace),
            ("ignored-vpa-object-namespaces", self.ignored_vpa_object_namespaces),
        ):
            for name in names:
                if problem := check_dns_label(name):
                    yield SettingConflict(setting, f"{name} is not a valid namespace name: {problem}")

    def covers(self, namespace: str) -> bool:
        """Whether objects of that namespace are served."""
        if self.vpa_object_namespace:
            return namespace in self.vpa_object_namespace
        return namespace not in self.ignored_vpa_object_namespaces


class ScopeSettings(NamespaceSettings, frozen=True):
    """Namespaces whose objects are served, and feature gates."""

    title: ClassVar[str] = "Namespaces and feature gates"

    feature_gates: Annotated[
        FeatureGates,
        Setting(
            "Feature gates that are on or off; in a flag as `Name=true` or `Name=false`, separated by commas.",
            why="All are on; `AllAlpha=false` gives upstream's defaults.",
        ),
    ] = FeatureGates()


class ElectionSettings(Settings, frozen=True):
    """Leases that keep replicas of one component from working at the same time."""

    title: ClassVar[str] = "Leader election"

    leader_elect: Annotated[
        bool,
        Setting(
            "Work only while holding the leader election Lease. Required with several replicas.",
            why="Off, as upstream; on in `trellis run`, so that a second replica is safe at any time.",
        ),
    ] = False
    leader_elect_lease_duration: Annotated[
        Duration,
        Setting(
            "Time without renewal after which another replica takes the Lease.",
            why="15s, as Kubernetes' own controllers. 12s in `trellis run`: another replica then works within 15s of "
            "a kill.",
        ),
    ] = Duration.from_seconds(15)
    leader_elect_renew_deadline: Annotated[
        Duration,
        Setting(
            "Time after which a leader that cannot renew the Lease gives it up. It stops writing 5s before another "
            "replica may take the Lease, if that is earlier.",
            why="The default of Kubernetes' own controllers.",
        ),
    ] = Duration.from_seconds(10)
    leader_elect_retry_period: Annotated[
        Duration,
        Setting(
            "Time between attempts to acquire the Lease, or to renew it after a failure; twice that after a renewal.",
            why="The default of Kubernetes' own controllers.",
        ),
    ] = Duration.from_seconds(2)
    leader_elect_resource_lock: Annotated[
        str, Setting("Type of the lock object.", why="The only type of lock there is.", choices=(LEASES_LOCK,))
    ] = LEASES_LOCK
    leader_elect_resource_namespace: Annotated[
        str, Setting("Namespace of the Lease.", why="The namespace of upstream's manifests.")
    ] = "kube-system"

    def conflicts(self) -> Iterator[SettingConflict]:
        """A leader retries before its deadline, and stops before its Lease can be taken."""
        if not self.leader_elect_lease_duration > self.leader_elect_renew_deadline:
            yield SettingConflict("leader-elect-lease-duration", "must be longer than --leader-elect-renew-deadline")
        retry = self.leader_elect_retry_period.total_seconds()
        if not self.leader_elect_renew_deadline.total_seconds() > 1.2 * retry > 0:
            yield SettingConflict(
                "leader-elect-renew-deadline", "must be longer than 1.2 times --leader-elect-retry-period"
            )


class LeaderSettings(ElectionSettings, frozen=True):
    """Lease that keeps replicas of one component from working at the same time."""

    title: ClassVar[str] = "Leader election"

    leader_elect_resource_name: Annotated[
        str,
        Setting(
            "Name of the Lease.",
            why="Upstream's name, so that upstream's component and this one never work at the same time.",
        ),
    ] = ""


class ShardedLeaderSettings(LeaderSettings, frozen=True):
    """Lease of one component, which replicas that share namespaces hold together."""

    title: ClassVar[str] = "Leader election"

    shard_namespaces: Annotated[
        bool,
        Setting(
            "Share the namespaces among all replicas instead of electing one leader. Replicas take the Lease together.",
            why="Off: one replica serves some ten thousand pods. Namespaces are assigned by rendezvous hashing over "
            "the replicas' member Leases, so that replicas agree without a coordinator, and a replica that comes or "
            "goes moves only its own namespaces.",
        ),
    ] = False


def check_millicores(quantity: Quantity) -> str | None:
    """The rule that an amount of CPU breaks, or None: it is a whole number of millicores."""
    return None if quantity.is_whole_milli else "must be a whole number of milli CPUs"


def effective_boost_settings(gates: FeatureGates, most: Quantity | None, served: Served) -> BoostSettings:
    """Whether pods are boosted.

    Without in-place resize a boost could not be withdrawn, and would last for the life of the pod.
    """
    enabled = gates.cpu_startup_boost and served.resizes_pods
    return BoostSettings(enabled=enabled, max_cpu=most.milli if most is not None else None)
