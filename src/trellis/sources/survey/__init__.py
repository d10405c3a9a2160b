"""Which workloads are there, and what did they use, whether anybody autoscales them or not?

From a cluster (`cluster`), from what kube-state-metrics tells Prometheus of one (`kube_state`), or from files of usage
(`files`); usage comes from Prometheus, a namespace at a time (`usage`). `survey` puts it together. Everything is read,
and nothing is written but the file from which an interrupted survey goes on.
"""
