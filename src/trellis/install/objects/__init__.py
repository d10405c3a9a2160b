"""The objects of an installation, as trees over its values: one module per kind of concern."""
