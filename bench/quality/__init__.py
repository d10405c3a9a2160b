"""How well recommenders size recorded and generated usage."""
