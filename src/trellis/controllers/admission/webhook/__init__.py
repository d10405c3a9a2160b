"""The webhook: the HTTPS server, how reviews are answered, and the registration with the API server."""
