"""The Buffer controller: translates Buffers into the pods they stand for, and writes these into their status.

It decides nothing about chunks. It builds the view of a Buffer, has `core.buffers` translate it, divides the quotas of
a namespace among its Buffers, and publishes the result.
"""
