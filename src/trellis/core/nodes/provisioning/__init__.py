"""ProvisioningRequests: what they request, when it is tried, and how capacity is booked for their pods."""
