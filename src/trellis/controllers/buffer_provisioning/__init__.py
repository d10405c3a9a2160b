"""Parts of the two controllers that observe whether Buffers are provisioned.

These are the node autoscaler and, where it does not run, the Buffer controller.
"""
