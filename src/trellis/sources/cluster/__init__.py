"""What is there in a cluster, at one time? Everything that decides about sizes, collected as lines for a dump.

`collecting` asks the API server, by lists alone and for as long as nobody refuses; what is refused is named and never
ends the rest. Objects are read as the slices that Trellis works with, so that environments, commands, images and
mounts are not even looked at; `cleaning` leaves out what is left of other people's text, and `masking` gives everything
that has a name another one.
"""
