"""The Buffer controller at rest."""
