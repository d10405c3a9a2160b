"""The updater: resizes and evicts pods whose requests are not what their VPA or Hvpa recommends.

It decides nothing about a pod. It builds the view of a workload, has `core.resize` plan in a thread, executes the
plan's actions through the writer, and keeps the results for the next plan.
"""
