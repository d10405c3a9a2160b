"""Groups of real machines on a control plane, and the stories that hold for all of them."""
