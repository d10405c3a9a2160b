"""The client of the API server: every request that Trellis sends, and every response it reads.

Requests and responses are values: `transport.requests` and `write.patches` build them, `transport.responses` and
`watch.watch_events` read them, and none of these does I/O. Bytes move through one interface, the `Transport` of
`transport.protocol`, which `transport.aiohttp_transport` implements. `client` joins the two; informers (`watch`), the
one writer (`write`), leases and Events are built on the client.

This package decides nothing about pods or sizes, and no other package talks to the API server. It imports neither
`runtime` nor anything above it. Modules are imported one by one, so that a program which only builds requests does
not load aiohttp.
"""
