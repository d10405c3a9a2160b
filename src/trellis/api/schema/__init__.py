"""How a field of our own kinds is declared, and what is derived from the declaration."""
