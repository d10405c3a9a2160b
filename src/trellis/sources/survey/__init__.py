"""Surveys workloads and their usage for `trellis recommend`, whether anything autoscales them or not.

Workloads come from a cluster (`cluster`), from what kube-state-metrics tells Prometheus of one (`kube_state`), or
from files of usage (`files`); usage comes from Prometheus, a namespace at a time. `survey` puts it together.
Everything is read, and nothing is written but the file from which an interrupted survey resumes.
"""
