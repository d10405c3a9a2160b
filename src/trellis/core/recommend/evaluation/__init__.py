"""Replays of sizing rules over recorded usage, their scores, and the choice among candidates."""
