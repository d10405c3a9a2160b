"""The Buffer controller: translates Buffers into the pods they stand for, and writes these into their status.

`core.buffers` decides. This package builds the view of a Buffer, divides the quotas of a namespace among its Buffers,
and publishes the result.
"""
