"""A real node: kubelet, containerd and runc, in namespaces and cgroups of their own.

`python -m testbed.node COMMAND ...` runs a command in a sandbox: mount, network and process namespaces that end with
it. A control plane that is started in there can have a `RealNode`, on which pods really run. Nothing of the machine is
changed but a cgroup subtree, which is removed at the end.
"""
