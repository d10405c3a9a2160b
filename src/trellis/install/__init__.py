"""Installation: the objects that an installation creates in a cluster, described once."""
