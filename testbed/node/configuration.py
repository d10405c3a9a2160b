"""The configuration files of a node's programs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from testbed.node.images.archives import PAUSE
from testbed.node.init import NODE_ADDRESS

CONTAINERD_SOCKET: Final = "/run/containerd/containerd.sock"
POD_RANGE: Final = "10.98.0.0/24"

# How long kubelet waits at most before it starts a crashed container again: its own five minutes are long for a test.
CRASH_BACKOFF: Final = "10s"

# Below so much free memory kubelet evicts pods.
_EVICTION_BYTES: Final = 100 * 2**20


def build_kubelet_configuration(access: Path, cgroup: str, allocatable_bytes: int) -> dict[str, Any]:
    """The kubelet serves by a certificate of the cluster's authority, and leaves the settings of the machine alone."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": ["pods"],
        # Capacity is that of the machine, of which the node gets a part.
        "systemReserved": {"memory": str(max(total - allocatable_bytes - _EVICTION_BYTES, 0))},
        "protectKernelDefaults": True,
        "makeIPTablesUtilChains": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "address": NODE_ADDRESS,
        "port": 10250,
        "readOnlyPort": 0,
        "healthzBindAddress": "127.0.0.1",
        "tlsCertFile": str(access / "node.crt"),
        "tlsPrivateKeyFile": str(access / "node.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(access / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "resolvConf": "",
        # Nothing answers there, but without it every pod gets a warning.
        "clusterDNS": ["10.255.0.10"],
        "evictionHard": {
            "memory.available": str(_EVICTION_BYTES),
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        "crashLoopBackOff": {"maxContainerRestartPeriod": CRASH_BACKOFF},
        "featureGates": {"KubeletCrashLoopBackOffMax": True},
    }


def build_containerd_configuration(directory: Path, packages: Path) -> str:
    """Snapshots and state in the sandbox, and programs from packages that are unpacked and not installed."""
    return f"""version = 3
root = "{directory / "containerd"}"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.nri.v1.nri",
  "io.containerd.internal.v1.tracing",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{PAUSE}"

[plugins.'io.containerd.cri.v1.runtime']
  # Without CAP_SYS_RESOURCE the score of a pod's sandbox, -998, cannot be set.
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = "{packages / "usr/sbin/runc"}"
        SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{packages / "usr/lib/cni"}"]
    conf_dir = "{directory / "cni"}"
"""


def build_network() -> str:
    """Pods on one bridge in the network namespace of the sandbox."""
    ranges = [[{"subnet": POD_RANGE}]]
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "ipam": {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]},
    }
    return json.dumps({"cniVersion": "1.0.0", "name": "trellis-node", "plugins": [bridge]})
