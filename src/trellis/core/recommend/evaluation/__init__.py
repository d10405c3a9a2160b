"""Replays of sizing rules over recorded usage, the scores of what came of them, and the choice among candidates."""
