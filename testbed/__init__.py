"""A real Kubernetes control plane on one machine, for tests and for trying things out.

etcd, kube-apiserver, kube-controller-manager, kube-scheduler and metrics-server are the real programs.
The nodes are simulated: kwok acts as the kubelet, by the rules in `kwok.stages`. Everything listens on
127.0.0.1 and nothing outlives the process that started it. This package is not part of the wheel, and
it must not import `trellis`, which it tests.
"""
