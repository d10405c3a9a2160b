"""The workload controllers of the model cluster, with the rules of Kubernetes 1.36."""
