"""Where do nodes come from? Each provider tells of groups of nodes alike, takes orders for more and takes nodes back.

`protocol` says what a provider is; `trellis.testing.providers` has the suite that every one of them passes. `kwok` has
groups of nodes without machines.

A provider decides nothing: it does not know why a node is wanted or in the way. It writes nothing to the API server
either. What has to be written there it returns as actions, for whoever holds the writer. One that speaks to something
else than the API server does that itself.
"""
