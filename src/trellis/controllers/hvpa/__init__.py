"""The Hvpa controller: sets the replicas of workloads and publishes the size of their pods, bucket by bucket.

It decides nothing about replicas and sizes. It builds the view of a workload, has `core.hvpa` plan, executes the plan's
actions through the writer, publishes its size in the status, and keeps the results for the next plan.
"""
