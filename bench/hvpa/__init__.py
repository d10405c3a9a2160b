"""Plans of many Hvpas, and how they serve a load."""
