"""What drives the core's decisions in a simulation: one module per component, with what it watches and writes."""
