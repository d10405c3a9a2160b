"""The base of every long-running command: components, queues, passes, settings, telemetry and shutdown.

A controller defines what to do; this package defines when, how often, how many at once, and what happens on failure.
Time is the event loop's clock, so that tests run on a virtual one.

It does not know what a controller does: no decision, no request to the API server of its own. It stays light too:
importing it imports neither click, rich nor jinja2, nor a library for tables or plots. Pod creation waits for a
starting webhook, and probes wait for every component.
"""
