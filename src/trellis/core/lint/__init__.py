"""Finds what is wrong with a set of manifests, before any of them reaches a cluster.

Text in, findings out. Single objects are judged by `trellis.api.validation`, the validator of the webhook; this package
adds what only a file can have (a typo in `apiVersion`, two documents with one name) and what only a set shows (a VPA
and an HPA that fight over one resource). It reads no files and prints nothing.
"""
