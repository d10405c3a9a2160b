"""What is on the wire, as frozen typed objects, and what it means.

Our own kinds are declared here once, field by field; decoding, validation, the CRDs and the reference pages are all
derived from that declaration. Everybody else's kinds are partial slices: what we do not read is ignored and, because we
only ever patch, never lost. This package does no I/O, reads no clock and decides nothing about a cluster.
"""
