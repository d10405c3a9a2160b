"""Programs of the control plane and peers, compiled from their Go modules."""
