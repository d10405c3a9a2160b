"""Collects the state of a cluster at one time: everything that decides about sizes, as lines of a dump.

`collector` asks the API server, by lists alone, and goes on where one is refused; what is refused is named and never
ends the rest. Objects are read as the slices that Trellis works with, so that environments, commands, images and
mounts are not even read; `redaction` leaves out what is left of other people's text, and `anonymization` replaces
every name.
"""
