"""The Scenario kind, `sim.trellis.x-k8s.io/v1alpha1`: the input of `trellis simulate`."""
