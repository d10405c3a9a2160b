"""Finds what is wrong with a set of manifests, before any of them reaches a cluster.

Text in, findings out. `trellis.api.validation`, the validator of the webhook, validates single objects; this package
adds what only a file can have (a typo in `apiVersion`, two documents with one name) and what only a set shows (a VPA
and an HPA that fight over one resource). It reads no files and prints nothing.
"""
