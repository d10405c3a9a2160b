"""HTTP requests and responses of the API server as values, and the transport that moves them."""
