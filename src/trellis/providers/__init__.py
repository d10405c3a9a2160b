"""Node providers: each reports node groups, takes orders for more nodes and releases nodes.

`protocol` defines what a provider is; `trellis.testing.providers` has the suite that every one of them passes.
`kwok` has groups of nodes without machines.

A provider decides nothing: it does not know why a node is needed or unneeded. It does not write to the API server
either, but returns actions for the caller's writer. Requests to other systems it sends itself.
"""
