"""The command lines and configuration files of the programs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

from testbed.kwok.nodes import KWOK_LABEL
from testbed.kwok.stages import build_stages
from testbed.kwok.usage import build_usage

ADDRESS = "127.0.0.1"
SERVICE_RANGE = "10.255.0.0/16"
# The first of the range is that of the Service `kubernetes`, by which pods reach the API server.
API_SERVICE_ADDRESS = "10.255.0.1"
POD_RANGE = "10.0.0.0/10"

# Short, so that tests need not wait: 15 s and 5 min are the defaults. 10 s is the least that metrics-server takes.
HPA_SYNC = "2s"
HPA_WARM_UP = "10s"
METRICS_RESOLUTION = "10s"

AUDIT_POLICY = "policy.yaml"
AUDIT_LOG_MEGABYTES = 10_000

Command = list[str | Path]


class Layout(msgspec.Struct, frozen=True):
    """Where things are: files in one directory, ports on 127.0.0.1."""

    directory: Path
    programs: dict[str, Path]
    # Where the API server finds its audit policy, and puts its log; None if it has none.
    audit: Path | None
    etcd: int
    etcd_peers: int
    api: int
    kubelet: int
    metrics: int

    @property
    def url(self) -> str:
        """Of the API server."""
        return f"https://{ADDRESS}:{self.api}"

    def file(self, name: str) -> Path:
        """A certificate, key or kubeconfig."""
        return self.directory / "access" / name


def etcd(at: Layout) -> Command:
    """Nothing needs to survive a power cut, so nothing is synced to disk."""
    clients, peers = f"http://{ADDRESS}:{at.etcd}", f"http://{ADDRESS}:{at.etcd_peers}"
    return [
        at.programs["etcd"],
        f"--data-dir={at.directory / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def kube_apiserver(at: Layout) -> Command:
    """Admission is the default set, which has the webhooks."""
    return [
        at.programs["kube-apiserver"],
        f"--etcd-servers=http://{ADDRESS}:{at.etcd}",
        f"--bind-address={ADDRESS}",
        f"--secure-port={at.api}",
        # A loopback address is not allowed in Endpoints, so no component may publish it there.
        f"--advertise-address={ADDRESS}",
        "--endpoint-reconciler-type=none",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        f"--cert-dir={at.directory / 'access'}",
        f"--tls-cert-file={at.file('apiserver.crt')}",
        f"--tls-private-key-file={at.file('apiserver.key')}",
        f"--client-ca-file={at.file('ca.crt')}",
        # For logs, exec and metrics of nodes; their names cannot be resolved.
        f"--kubelet-client-certificate={at.file('apiserver-kubelet-client.crt')}",
        f"--kubelet-client-key={at.file('apiserver-kubelet-client.key')}",
        f"--kubelet-certificate-authority={at.file('ca.crt')}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={at.file('service-accounts.pub')}",
        f"--service-account-signing-key-file={at.file('service-accounts.key')}",
        f"--requestheader-client-ca-file={at.file('front-proxy-ca.crt')}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={at.file('front-proxy-client.crt')}",
        f"--proxy-client-key-file={at.file('front-proxy-client.key')}",
        # Ten times the defaults: a test under load measures its own code, not the queue in front of it.
        "--max-requests-inflight=4000",
        "--max-mutating-requests-inflight=2000",
        *(_audit_flags(at.audit, at.api) if at.audit else ()),
    ]


def _audit_flags(directory: Path, port: int) -> Command:
    """A log for each API server: several of a run may share the directory. It is one file, of any size."""
    return [
        f"--audit-policy-file={directory / AUDIT_POLICY}",
        f"--audit-log-path={directory / f'kube-apiserver-{port}.log'}",
        f"--audit-log-maxsize={AUDIT_LOG_MEGABYTES}",
    ]


def kube_controller_manager(at: Layout) -> Command:
    """Each controller under its own ServiceAccount, so that the bootstrap roles are the ones that count."""
    return [
        at.programs["kube-controller-manager"],
        f"--kubeconfig={at.file('kube-controller-manager.kubeconfig')}",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={at.file('service-accounts.key')}",
        f"--root-ca-file={at.file('ca.crt')}",
        f"--horizontal-pod-autoscaler-sync-period={HPA_SYNC}",
        f"--horizontal-pod-autoscaler-cpu-initialization-period={HPA_WARM_UP}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
    ]


def kube_scheduler(at: Layout) -> Command:
    """Defaults, without the rates that are meant for a shared API server."""
    return [
        at.programs["kube-scheduler"],
        f"--kubeconfig={at.file('kube-scheduler.kubeconfig')}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
    ]


def kwok(at: Layout) -> Command:
    """It stands for the kubelets of all nodes, and serves their usage."""
    options = {
        "cidr": POD_RANGE,
        "nodeIP": ADDRESS,
        "nodePort": at.kubelet,
        "serverAddress": f"{ADDRESS}:{at.kubelet}",
        "tlsCertFile": str(at.file("kubelet.crt")),
        "tlsPrivateKeyFile": str(at.file("kubelet.key")),
        # Not all nodes: one can be made before there is a kubelet for it, and be given to kwok later. By an annotation
        # kwok would not notice that (0.8 takes the lease of a node that is new, and of no other).
        "manageNodesWithLabelSelector": f"{KWOK_LABEL}=fake",
        "nodeLeaseDurationSeconds": 40,
        # A file replaces all defaults; without these two kwok exits or does nothing.
        "nodeLeaseParallelism": 4,
        "podPlayStageParallelism": 8,
        "nodePlayStageParallelism": 4,
    }
    configuration = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": options,
    }
    file = at.directory / "kwok.yaml"
    file.write_text(yaml.safe_dump_all([configuration, *build_stages(), *build_usage()], sort_keys=False))
    return [at.programs["kwok"], f"--config={file}", f"--kubeconfig={at.file('kwok.kubeconfig')}"]


def metrics_server(at: Layout) -> Command:
    """It reads usage where the nodes' annotations say, every ten seconds."""
    kubeconfig = at.file("metrics-server.kubeconfig")
    return [
        at.programs["metrics-server"],
        f"--bind-address={ADDRESS}",
        f"--secure-port={at.metrics}",
        f"--tls-cert-file={at.file('metrics-server.crt')}",
        f"--tls-private-key-file={at.file('metrics-server.key')}",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--kubelet-preferred-address-types=InternalIP",
        "--kubelet-use-node-status-port",
        f"--kubelet-certificate-authority={at.file('ca.crt')}",
        f"--metric-resolution={METRICS_RESOLUTION}",
        # Must be below the resolution, or metrics-server panics. Pods of a node that answers later are forgotten.
        "--kubelet-request-timeout=9s",
    ]
