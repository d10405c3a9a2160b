"""The provider keeps every rule of a provider, on Cluster API in memory."""

from __future__ import annotations

from support.virtual_time import run
from support.worlds.providers.cluster_api import ClusterApiWorld
from trellis.testing.providers import conformance_tests

test_conformance = conformance_tests(ClusterApiWorld, run)
