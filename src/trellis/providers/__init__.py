"""Node providers: each reports node groups, takes orders for more nodes and releases nodes.

`protocol` defines what a provider is; `trellis.testing.providers` has the suite that every one of them passes.
`kwok` has groups of nodes without machines.

A provider decides nothing: it does not know why a node is needed or unneeded. It writes nothing to the API server
either. What has to be written there it returns as actions, for the caller's writer. One that speaks to something
else than the API server does that itself.
"""
