"""What every long-running command is built on: queues, loops, settings, logs, metrics, probes and an orderly end.

A controller says what to do; this package says when, how often, how many at once, and what happens if it fails.
Time is the event loop's clock, so that tests run on a virtual one.

It must not know what a controller does: no Kubernetes kind, no decision, no request to the API server. Leases and
Events come in as callables. It must stay light too: importing it imports neither click, rich nor jinja2, nor a library
for tables or plots. Pods wait for a webhook that starts, and probes for everything else.
"""
