"""YAML and JSON documents with positions, read exactly as kubectl reads them.

`documents` is the entry: text in, documents with lines and columns out.
"""
