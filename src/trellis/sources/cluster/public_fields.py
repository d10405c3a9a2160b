"""Fields, labels and names that do not identify a cluster, in any object."""

from __future__ import annotations

from typing import Final

from trellis.api.registry import KWOK_NODE_GROUP
from trellis.core.buffers.translation_facts import NODE_CLASS_LABELS
from trellis.core.cluster.owners import WELL_KNOWN_KINDS
from trellis.core.nodes.state.readiness import LEAVING_TAINT, UNNEEDED_TAINT

# Times, quantities, modes and words of Kubernetes' own.
PUBLIC_FIELDS: Final = frozenset(
    {
        "accessModes",
        "acquireTime",
        "allocationMode",
        "architecture",
        "averageValue",
        "begin",
        "bootTime",
        "changeRequirement",
        "completionTime",
        "concurrencyPolicy",
        "containerRuntimeVersion",
        "controlledResources",
        "controlledValues",
        "cpu",
        "creationTimestamp",
        "declaredFeatures",
        "deletionTimestamp",
        "direction",
        "duration",
        "effect",
        "end",
        "eventTime",
        "finishedAt",
        "firstSampleStart",
        "firstTimestamp",
        "history",
        "how",
        "kernelVersion",
        "kubeletVersion",
        "lastFullyProvisioned",
        "lastSampleStart",
        "lastScaleTime",
        "lastTimestamp",
        "lastTransitionTime",
        "lastUpdateTime",
        "max",
        "maxUnavailable",
        "medium",
        "memory",
        "min",
        "minAvailable",
        "mode",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "oomBumpUpRatio",
        "oomMinBumpUp",
        "operatingSystem",
        "operator",
        "phase",
        "protocol",
        "qosClass",
        "quantity",
        "reason",
        "recreationStrategy",
        "referenceTimestamp",
        "renewTime",
        "resourceName",
        "resourceVersion",
        "resources",
        "restartPolicy",
        "runs",
        "schedule",
        "scopeName",
        "scopes",
        "selectPolicy",
        "sizeLimit",
        "stabilizationWindow",
        "start",
        "startTime",
        "startedAt",
        "status",
        "subresource",
        "time",
        "timeAdded",
        "timeZone",
        "tolerance",
        "totalCpu",
        "totalMem",
        "unhealthyPodEvictionPolicy",
        "updateMode",
        "value",
        "version",
        "volumeBindingMode",
        "whenUnsatisfiable",
    }
)
# Maps from resources to amounts, and such.
AMOUNT_FIELDS: Final = frozenset(
    {
        "allocatable",
        "allocatedResources",
        "bucketWeights",
        "capacity",
        "default",
        "defaultRequest",
        "hard",
        "limits",
        "lowerBound",
        "max",
        "maxAllowed",
        "maxLimitRequestRatio",
        "min",
        "minAllowed",
        "overhead",
        "perChunkResources",
        "requests",
        "resources",
        "target",
        "totalTarget",
        "uncappedTarget",
        "upperBound",
        "used",
    }
)
LABEL_FIELDS: Final = frozenset({"labels", "matchLabels", "nodeSelector", "podLabels", "selector"})
# Keys of labels outside of a map.
KEY_FIELDS: Final = frozenset({"topologyKey", "matchLabelKeys", "mismatchLabelKeys"})
NODE_FIELDS: Final = frozenset({"nodeName", "nominatedNodeName", "host"})
# Sentences and addresses, which nothing is decided by.
DROPPED_FIELDS: Final = frozenset({"message", "fieldPath", "providerID", "hostIP", "finalizers"})

# By how the names of components begin that are called so everywhere.
PUBLIC_COMPONENTS: Final = ("vpa-", "trellis", "kube", "default-scheduler", "horizontal-pod-autoscaler", "cluster-auto")

PUBLIC_NAMES: Final = (
    WELL_KNOWN_KINDS
    | NODE_CLASS_LABELS.keys()
    | {
        "",
        "*",
        "Node",
        KWOK_NODE_GROUP.name,
        "Rollout",
        "Scale",
        "default",
        "default-scheduler",
        "kube-node-lease",
        "kube-public",
        "kube-system",
        "system-cluster-critical",
        "system-node-critical",
        "trellis-freeze",
        "trellis-system",
        "vpa-admission-controller",
        "vpa-recommender",
        "vpa-recommender-lease",
        "vpa-updater",
    }
)
# Labels whose values are the same everywhere.
PUBLIC_LABELS: Final = frozenset(
    {"kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/instance-type", "app.kubernetes.io/managed-by"}
    | {LEAVING_TAINT, UNNEEDED_TAINT}
)
_PUBLIC_KEYS: Final = frozenset(
    {"app", "component", "controller-revision-hash", "controller-uid", "job-name", "k8s-app", "name"}
    | {"pod-template-hash", "release", "tier", "track", "version"}
    | set(NODE_CLASS_LABELS.values())
)
_PUBLIC_DOMAINS: Final = ("kubernetes.io", "k8s.io", "x-k8s.io", "nvidia.com", "amd.com", "intel.com")
_PUBLIC_GROUPS: Final = ("argoproj.io", "knative.dev", "openkruise.io")


def is_public_key(key: str) -> bool:
    """Whether a label, or a resource, is called so in many clusters; a resource of Kubernetes' own has no domain."""
    if key in _PUBLIC_KEYS:
        return True
    domain, slash, name = key.rpartition("/")
    if slash:
        return _is_within(domain, _PUBLIC_DOMAINS)
    return name in _RESOURCES or name.isdecimal() or name.startswith(_RESOURCE_FAMILIES)


def is_public_group(group: str) -> bool:
    """Whether a group of kinds is one that many clusters have; those without a domain are Kubernetes' own."""
    return "." not in group or _is_within(group, (*_PUBLIC_DOMAINS, *_PUBLIC_GROUPS))


def _is_within(domain: str, domains: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in domains)


_RESOURCES: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage", "storage"})
_RESOURCE_FAMILIES: Final = ("hugepages-", "attachable-volumes-", "requests.", "limits.")
