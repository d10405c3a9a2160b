"""Small clusters that live with decisions, on virtual time."""
