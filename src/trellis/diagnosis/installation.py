"""The installation as it was found: workloads that run components, their pods, Leases and metrics.

Components of upstream's VPA count too: they have the same names and Leases, and either side can take the other's place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from trellis.base.replica_assignment import is_shared_holder
from trellis.controllers.buffers.settings import LEASE as BUFFERS_LEASE
from trellis.controllers.hvpa.settings import LEASE as HVPA_LEASE
from trellis.controllers.nodes.settings import LEASE as NODES_LEASE
from trellis.controllers.recommender.settings import LEASE as RECOMMENDER_LEASE
from trellis.controllers.updater.settings import LEASE as UPDATER_LEASE
from trellis.diagnosis.unread import Unread
from trellis.kube.resources import DEPLOYMENTS
from trellis.kube.resources import LEASES as LEASES_RESOURCE
from trellis.runtime.manager.settings import ADMISSION, BUFFERS, COMPONENTS, HVPA, NODES, RECOMMENDER, UPDATER

# The webhook's Lease tells updaters that a webhook runs; it elects no leader.
ADMISSION_LEASE: Final = "vpa-admission-controller"
LEASES: Final = {
    RECOMMENDER: RECOMMENDER_LEASE,
    ADMISSION: ADMISSION_LEASE,
    UPDATER: UPDATER_LEASE,
    HVPA: HVPA_LEASE,
    BUFFERS: BUFFERS_LEASE,
    NODES: NODES_LEASE,
}
# For a Lease without a duration of its own.
_LEASE_SECONDS: Final = 60.0


class PassMetrics(msgspec.Struct, frozen=True):
    """The passes of a component in one replica; NaN is unknown. `last` is seconds since 1970."""

    interval: float = math.nan
    last: float = math.nan
    duration: float = math.nan
    failed: int = 0

    def find_lag(self, now: float) -> float:
        """How long the next pass is overdue; 0 if it is not, NaN if that is unknown."""
        return max(0.0, now - self.last - self.interval) if not math.isnan(self.last) else math.nan


class MetricsPage(msgspec.Struct, frozen=True):
    """What the metrics of one pod say, as far as a diagnosis uses it. Maps are by component.

    `forbidden_writes` counts writes refused for lack of rights by resource; `unseen` are kinds that may not be read.
    `certificate_ends` has the times at which certificates expire, by `serving` and `authority`.
    """

    version: str = ""
    leads: Mapping[str, bool] = {}
    passes: Mapping[str, PassMetrics] = {}
    not_ready: Mapping[str, str] = {}
    forbidden_writes: Mapping[str, float] = {}
    unseen: tuple[str, ...] = ()
    certificate_ends: Mapping[str, float] = {}
    group_backoffs: Mapping[str, float] = {}


class ContainerRun(msgspec.Struct, frozen=True):
    """A container of a component's pod: why it does not run, how it ended last, and the last error that it logged."""

    name: str
    image: str = ""
    is_ready: bool = True
    waiting: str = ""
    waiting_message: str = ""
    exit_code: int | None = None
    exit_reason: str = ""
    restarts: int = 0
    last_error: str = ""


class ComponentPod(msgspec.Struct, frozen=True):
    """A pod of a component. `page` is None if its metrics were not requested, because it is not ready."""

    name: str
    is_ready: bool = True
    unscheduled: str = ""
    created: float = 0.0
    containers: tuple[ContainerRun, ...] = ()
    page: MetricsPage | Unread | None = None


class ComponentWorkload(msgspec.Struct, frozen=True):
    """A Deployment that runs components.

    `failure` is why it cannot create pods, and `stuck` what Kubernetes says of a rollout that does not get on.
    """

    namespace: str
    name: str
    components: tuple[str, ...]
    is_ours: bool = True
    image: str = ""
    version: str = ""
    wanted: int = 1
    ready: int = 1
    flags: Mapping[str, str] = {}
    elects: bool = False
    account: str = "default"
    priority_class: str = ""
    failure: str = ""
    stuck: str = ""
    pods: tuple[ComponentPod, ...] | Unread = ()

    @property
    def label(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    def list_pods(self) -> tuple[ComponentPod, ...]:
        """Its pods, as far as they are known."""
        return () if isinstance(self.pods, Unread) else self.pods

    def find_flag(self, name: str, component: str = "") -> str:
        """The value of a flag, also one with the name of its component in front; empty if it is not set."""
        return self.flags.get(f"{component}.{name}") or self.flags.get(name, "")

    def is_idle(self, component: str) -> bool:
        """Whether a component changes nothing, and takes no Lease: `--read-only`, or the updater's `--dry-run`."""
        return any(self.find_flag(name, component) == "true" for name in ("read-only", "dry-run"))

    def find_age(self, now: float) -> float:
        """How long its oldest ready pod exists; infinite if its pods are unknown."""
        ready = [pod.created for pod in self.list_pods() if pod.is_ready]
        return now - min(ready, default=-math.inf)


class ComponentLease(msgspec.Struct, frozen=True):
    """The Lease of a component; `seconds` is how long a renewal holds."""

    namespace: str
    name: str
    component: str
    holder: str = ""
    renewed: float = math.nan
    seconds: float = _LEASE_SECONDS

    @property
    def is_shared(self) -> bool:
        """Whether all replicas hold it together, because they share namespaces; each has a member Lease too."""
        return is_shared_holder(self.holder)

    def is_held(self, now: float) -> bool:
        """Whether a process holds it now."""
        return bool(self.holder) and now < self.renewed + self.seconds


class Installation(msgspec.Struct, frozen=True):
    """Everything that was found of the components. `unread` is what could not be read of it."""

    workloads: tuple[ComponentWorkload, ...] = ()
    leases: tuple[ComponentLease, ...] = ()
    unread: tuple[Unread, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether workloads could be read, so that a component that is missing does not run."""
        return not any(unread.resource == DEPLOYMENTS.full_name for unread in self.unread)

    @property
    def has_known_leases(self) -> bool:
        """Whether all Leases could be read, so that one that is missing is not held."""
        return not any(unread.resource == LEASES_RESOURCE.full_name for unread in self.unread)


class ComponentState(msgspec.Struct, frozen=True):
    """One component, over all workloads that run it. `holders` are the processes that hold its Leases now.

    Of replicas that share namespaces, these are the holders of their member Leases.
    """

    component: str
    workloads: tuple[ComponentWorkload, ...] = ()
    leases: tuple[ComponentLease, ...] = ()
    holders: tuple[str, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether a workload or the holder of its Lease runs it."""
        return bool(self.workloads or self.holders)

    @property
    def wanted(self) -> int:
        """Wanted replicas."""
        return sum(workload.wanted for workload in self.workloads)

    @property
    def ready(self) -> int:
        """Ready replicas."""
        return sum(workload.ready for workload in self.workloads)

    @property
    def is_ours(self) -> bool:
        """Whether all of its workloads are Trellis'; those of a process outside of the cluster are unknown."""
        return all(workload.is_ours for workload in self.workloads)

    @property
    def log_command(self) -> str:
        """How to read its log."""
        if not self.workloads:
            return f"look at the log of the {self.component} component"
        workload = self.workloads[0]
        return f"kubectl logs -n {workload.namespace} deployment/{workload.name}"

    @property
    def is_idle(self) -> bool:
        """Whether it runs and changes nothing."""
        return bool(self.workloads) and all(workload.is_idle(self.component) for workload in self.workloads)

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions that run, each once."""
        return tuple(dict.fromkeys(workload.version for workload in self.workloads if workload.version))

    def list_pages(self) -> list[MetricsPage]:
        """The metrics of its pods, those of the leader first."""
        pods = [pod for workload in self.workloads for pod in workload.list_pods()]
        pods.sort(key=lambda pod: not any(_is_named_after(holder, pod.name) for holder in self.holders))
        return [pod.page for pod in pods if isinstance(pod.page, MetricsPage)]

    def find_passes(self) -> PassMetrics | Unread | None:
        """The passes of the replica that works; why they are unknown; None where there is no pod to ask.

        Where several replicas work, because they share namespaces, the one whose last pass is oldest tells most.
        """
        pages = [page for page in self.list_pages() if self.component in page.passes]
        completed = [page for page in pages if page.passes[self.component].last > 0]
        if working := [page for page in completed if page.leads.get(self.component)]:
            return min((page.passes[self.component] for page in working), key=lambda item: item.last)
        if completed:
            return max((page.passes[self.component] for page in completed), key=lambda item: item.last)
        if pages:
            return pages[0].passes[self.component]
        pods = [pod for workload in self.workloads for pod in workload.list_pods()]
        return next((pod.page for pod in pods if isinstance(pod.page, Unread)), None)


def _is_named_after(holder: str, pod: str) -> bool:
    return holder == pod or holder.startswith(f"{pod}_")


def find_component_of_lease(name: str) -> str:
    """The component of a Lease, by its usual name or one derived from it; empty for others."""
    by_length = sorted(LEASES.items(), key=lambda entry: -len(entry[1]))
    return next((part for part, lease in by_length if name == lease or name.startswith(f"{lease}-")), "")


def list_component_states(installation: Installation, now: float) -> tuple[ComponentState, ...]:
    """Every component, also one that does not run, in the usual order."""
    return tuple(_build_state(component, installation, now) for component in COMPONENTS)


def _build_state(component: str, installation: Installation, now: float) -> ComponentState:
    workloads = tuple(workload for workload in installation.workloads if component in workload.components)
    places = {workload.namespace for workload in workloads}
    leases = tuple(lease for lease in installation.leases if lease.component == component)
    # Where workloads run, a Lease of another namespace belongs to another installation.
    own = tuple(lease for lease in leases if lease.namespace in places) or leases
    held = [lease for lease in own if lease.is_held(now)]
    holders = [lease.holder for lease in held if not lease.is_shared] or [lease.holder for lease in held]
    return ComponentState(component, workloads, own, tuple(dict.fromkeys(holders)))


def find_state(states: Iterable[ComponentState], component: str) -> ComponentState:
    """The state of a component."""
    return next((state for state in states if state.component == component), ComponentState(component))
