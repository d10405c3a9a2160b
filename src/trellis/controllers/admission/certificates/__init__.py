"""The serving certificate of the webhook: from files, or made by Trellis and shared by replicas in a Secret."""
