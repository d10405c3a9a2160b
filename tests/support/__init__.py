"""What tests share: worlds, builders, oracles, servers and clocks."""
