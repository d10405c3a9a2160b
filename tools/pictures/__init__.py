"""Pictures of the documentation, drawn from simulations and measurements."""
