"""The programs of a control plane and of tests beside it, with their versions."""

from __future__ import annotations

import msgspec

KUBERNETES = "1.36.3"

# The modules that are compiled together. etcd is the version that this Kubernetes names itself, so that
# one module resolves and the libraries that all of them share are compiled once.
MODULES = {
    "k8s.io/kubernetes": f"v{KUBERNETES}",
    "go.etcd.io/etcd/server/v3": "v3.6.8",
    "sigs.k8s.io/kwok": "v0.8.0",
    "sigs.k8s.io/metrics-server": "v0.9.0",
}

# The highest `go` line among those modules: metrics-server 0.9.0.
GO = "1.26.4"


class Program(msgspec.Struct, frozen=True):
    """A program and the Go package of its main function."""

    name: str
    package: str
    minutes: float  # of a cold build on two cores, in the order of `NEEDED`; shown while it is built


# kube-apiserver first: it compiles most of what the others share.
NEEDED = (
    Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", 6),
    Program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", 1.5),
    Program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", 0.2),
    Program("etcd", "./etcd", 0.7),
    Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", 1.5),
    Program("metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server", 1),
)

# A real node: the kubelet from the module of the control plane, and a container runtime, whose version stands in
# container_runtime/go.mod.
KUBELET = Program("kubelet", "k8s.io/kubernetes/cmd/kubelet", 2)
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
CONTAINER_RUNTIME = (
    Program("containerd", f"{_CONTAINERD}/containerd", 3),
    Program("containerd-shim-runc-v2", f"{_CONTAINERD}/containerd-shim-runc-v2", 0.5),
    Program("ctr", f"{_CONTAINERD}/ctr", 0.5),
)
NODE_PROGRAMS = (KUBELET, *CONTAINER_RUNTIME)

# For people, not for tests: `python -m testbed build kubectl`.
KUBECTL = Program("kubectl", "k8s.io/kubernetes/cmd/kubectl", 0.6)

# What Trellis is compared with, and reads from: only for the tests and measurements that ask for it. Their versions
# stand in peers/go.mod. The recommender first, because it compiles the Kubernetes libraries that Prometheus uses too.
UPSTREAM_RECOMMENDER = Program("vpa-recommender", "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender", 2)
UPSTREAM_ADMISSION = Program(
    "vpa-admission-controller", "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller", 0.2
)
UPSTREAM_UPDATER = Program("vpa-updater", "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater", 0.2)
PROMETHEUS = Program("prometheus", "github.com/prometheus/prometheus/cmd/prometheus", 1.3)
PROMTOOL = Program("promtool", "github.com/prometheus/prometheus/cmd/promtool", 0.1)
UPSTREAM_VPA = (UPSTREAM_RECOMMENDER, UPSTREAM_ADMISSION, UPSTREAM_UPDATER)
PEERS = (*UPSTREAM_VPA, PROMETHEUS, PROMTOOL)

# What renders, installs and checks the chart; their versions stand in install_tools/go.mod and kube_score/go.mod.
HELM_4 = Program("helm-4", "helm.sh/helm/v4/cmd/helm", 2)
HELM_3 = Program("helm-3", "helm.sh/helm/v3/cmd/helm", 0.5)
KUBECONFORM = Program("kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform", 0.2)
KUBE_SCORE = Program("kube-score", "github.com/zegl/kube-score/cmd/kube-score", 0.8)
INSTALL_TOOLS = (HELM_4, HELM_3, KUBECONFORM)

# The core manager of Cluster API, which makes Machines of MachineDeployments; its version stands in cluster_api/go.mod.
CLUSTER_API = Program("cluster-api-core", "sigs.k8s.io/cluster-api/core", 3)

# A node autoscaler beside ours, with nodes that its kwok provider makes, and what writes its definitions; the version
# stands in karpenter/go.mod.
KARPENTER = Program("karpenter-kwok", "sigs.k8s.io/karpenter/kwok", 3)
KARPENTER_DEFINITIONS = Program("karpenter-definitions", "./definitions", 0.1)
KARPENTER_PROGRAMS = (KARPENTER, KARPENTER_DEFINITIONS)

BY_NAME = {
    program.name: program
    for program in (
        *NEEDED,
        *NODE_PROGRAMS,
        KUBECTL,
        *PEERS,
        *INSTALL_TOOLS,
        KUBE_SCORE,
        CLUSTER_API,
        *KARPENTER_PROGRAMS,
    )
}
