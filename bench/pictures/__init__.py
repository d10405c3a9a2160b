"""Pictures of the documentation, drawn from measured runs."""
