"""Components on a real control plane: how tests start them and read what they did."""
