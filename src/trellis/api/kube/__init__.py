"""Kubernetes' own objects, as far as Trellis reads them: frozen partial slices, a module per family.

A slice declares the fields somebody in Trellis reads and nothing else; the decoder skips the rest of the
bytes without making objects of them, which is why ten thousand pods take some eighty megabytes. Because
Trellis only ever patches, what a slice does not declare is ignored when reading and never lost.

`slices` says how a slice is declared and `decode` how bytes become slices. This package holds what the API
server said: it does not parse quantities, match selectors or decide anything, and a slice is never sent back
as a whole object.
"""
