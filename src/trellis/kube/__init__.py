"""Everything that is said to the API server, and everything it says.

What is sent and received are values: `requests` and `patches` make them, `responses` and `watch_lines` read them, and
none of these does I/O. Bytes move through one seam, `transport.Transport`; `aiohttp_transport` is the real one and
`scripted` the fake that tests use. `client` joins the two, and the rest of the package is built on the client.

This package decides nothing about pods or sizes, and no other package talks to the API server. It imports neither
`runtime` nor anything above it. Modules are imported one by one, so that a program which only builds requests does not
pay for aiohttp.
"""
