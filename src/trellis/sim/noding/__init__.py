"""Which nodes does a variant have? The node autoscaler and the Buffer controller of the core, on model machines."""
