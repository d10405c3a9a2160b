"""Karpenter beside a control plane, with nodes that its kwok provider makes and kwok keeps ready."""
