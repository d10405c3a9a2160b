"""Which nodes to order for pods and chunks of Buffers that fit on no node."""
