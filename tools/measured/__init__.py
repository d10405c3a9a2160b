"""Pictures of what was measured on a real node."""
