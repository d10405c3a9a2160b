"""Upstream's CapacityBuffers: served (`--serve-capacity-buffers`), mirrored (`--translate`), or neither.

`controller` chooses. `informers`, `state`, `view`, `reconcile` and `status` serve them; `mirror` keeps one for each
Buffer.
"""
