"""Does a component still decide what it decided? Recordings of components, decided again by the core."""
