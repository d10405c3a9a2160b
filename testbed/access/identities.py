"""The keys and kubeconfigs that a control plane starts with."""

from __future__ import annotations

from testbed.access.certificates import Authority, signing_keys
from testbed.access.kubeconfigs import Server, certificate_kubeconfig, write_private
from testbed.components import ADDRESS, API_SERVICE_ADDRESS, Layout
from testbed.metrics_api import HOST as METRICS_HOST

# The user names that the bootstrap roles are bound to, and two that stand for parts of a cluster which have
# all rights anyway. Those two are also exempt from flow control, as load from nodes should be.
IDENTITIES: dict[str, tuple[str, ...]] = {
    "admin": ("testbed:admin", "system:masters"),
    "kwok": ("testbed:kwok", "system:masters"),
    "metrics-server": ("testbed:metrics-server", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager",),
    "kube-scheduler": ("system:kube-scheduler",),
}


def prepare(at: Layout) -> None:
    """Write them all. It takes 10 ms."""
    access = at.directory / "access"
    access.mkdir(mode=0o700, parents=True)
    ca = Authority.new("testbed")
    ca.pair.save(access, "ca")
    hosts = (ADDRESS, API_SERVICE_ADDRESS, "localhost", "kubernetes.default.svc")
    ca.issue_server("kube-apiserver", *hosts).save(access, "apiserver")
    ca.issue_client("testbed:kube-apiserver", "system:masters").save(access, "apiserver-kubelet-client")
    ca.issue_server("kubelet", ADDRESS, "localhost").save(access, "kubelet")
    ca.issue_server("metrics-server", ADDRESS, METRICS_HOST).save(access, "metrics-server")
    front_proxy = Authority.new("testbed-front-proxy")
    front_proxy.pair.save(access, "front-proxy-ca")
    front_proxy.issue_client("front-proxy-client").save(access, "front-proxy-client")
    public, private = signing_keys()
    write_private(access / "service-accounts.pub", public.decode())
    write_private(access / "service-accounts.key", private.decode())
    server = Server(at.url, ca.pair.certificate)
    for name, (user, *groups) in IDENTITIES.items():
        pair = ca.issue_client(user, *groups)
        write_private(access / f"{name}.kubeconfig", certificate_kubeconfig(server, user, pair))
        if name == "admin":
            pair.save(access, name)
