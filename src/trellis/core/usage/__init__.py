"""The usage model: every sample of a resource in one bank of histograms, hourly history, and checkpoints.

Columns in, columns out: a scrape is one batch, and no sample, container or row ever becomes an object of its own. This
package recommends nothing, has no policy, reads no clock and does no I/O.
"""
