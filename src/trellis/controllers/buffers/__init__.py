"""The Buffer controller: watches Buffers and what they are about, and writes which pods each of them stands for.

Nothing here decides about chunks. What is known is gathered into facts, `core.buffers` translates them, quotas are
shared out by namespace, and what comes of it goes into the status.
"""
