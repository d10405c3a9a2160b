"""Kubernetes' own objects, as far as Trellis reads them: frozen partial slices, a module per family.

A slice declares only the fields that Trellis reads; the decoder skips the rest of the bytes without making objects of
them, which is why ten thousand pods take some eighty megabytes. Because Trellis only ever patches, what a slice does
not declare is ignored when reading and never lost.

`slices` defines how a slice is declared and `decoder` how bytes become slices. This package holds what the API server
returned: it does not parse quantities, match selectors or decide anything, and a slice is never sent back as a whole
object.
"""
