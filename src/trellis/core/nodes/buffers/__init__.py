"""Buffers on nodes: their chunks (virtual pods), where these fit, and the status that follows."""
