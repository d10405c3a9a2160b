"""Kinds of Cluster API, as far as Trellis reads them."""
