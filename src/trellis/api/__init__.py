"""Objects on the wire, as frozen typed structs, and their meaning.

Our own kinds are declared once, field by field, in `kinds` and `scenario`; decoding, validation, CRDs and reference
pages are all derived from that declaration (`schema`, `rules`, `validation`). `resolve` gives the effective meaning
of an object. `kube` holds partial slices of the kinds of others: fields that Trellis does not read are ignored and,
because Trellis only patches, never lost. This package does no I/O, reads no clock and decides nothing about a
cluster.
"""
