"""What should workloads ask for, and what would it save or risk?

`surveyed` is what was found out about them, by whoever looked; advice follows from it alone. Nothing here asks a
cluster or a Prometheus.
"""
