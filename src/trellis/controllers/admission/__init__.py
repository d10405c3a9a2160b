"""The admission controller: a webhook that sizes pods when they are created, and validates VPAs, Hvpas and Buffers.

`webhook` answers reviews and registers with the API server, `certificates` provides the serving certificate.
`core.admission` decides.
"""
