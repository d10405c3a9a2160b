"""The components in a simulation: one module per component, with what it watches and writes; the core decides."""
