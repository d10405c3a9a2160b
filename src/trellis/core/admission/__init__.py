"""Decides what becomes of an object that is about to be created or changed.

`reviews` reads the API server's question and writes the answer, `governor_index` and `decisions` find what sizes a pod,
`pods` sizes it, and `objects` judges Trellis' own kinds.
"""
