"""The text of `trellis explain`: one module per kind of object."""
