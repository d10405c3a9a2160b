"""Rights of components: the generated page, and the comparison with what the tests use."""
