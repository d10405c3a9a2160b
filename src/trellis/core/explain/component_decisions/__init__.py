"""The evidence of an explanation: what each component decides, by its own functions, from the collected state."""
