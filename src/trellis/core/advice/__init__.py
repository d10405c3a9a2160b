"""Advises what workloads should request, and what that saves or risks.

`survey` is what was found out about them, from a cluster, Prometheus or files; advice follows from it alone. Nothing
here queries a cluster or a Prometheus.
"""
