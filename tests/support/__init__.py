"""What tests share: worlds (models of a cluster), builders, oracles, servers and clocks."""
