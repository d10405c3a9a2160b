"""Settings of the observation of headroom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from trellis.base.errors import InvalidInput
from trellis.base.prices import EXAMPLE_PRICES, read_prices
from trellis.core.nodes.up_settings import UpSettings
from trellis.runtime.settings import Conflict, Setting, Settings


class HeadroomSettings(Settings, frozen=True):
    """Whether the chunks of Buffers fit on ready nodes, and what they cost there."""

    nodes_lease: Annotated[
        str,
        Setting(
            "Namespace and name of the Lease of `trellis nodes`, which writes `Provisioned` while it is held.",
            why="The one that it has unless its flags say otherwise.",
        ),
    ] = "kube-system/trellis-nodes"
    prices: Annotated[
        str,
        Setting(
            "Prices of a core-hour and a GiB-hour, for the metric of what Buffers cost.",
            why="Example prices: no autoscaler says in the cluster what its nodes cost.",
        ),
    ] = f"{EXAMPLE_PRICES.core_hour},{EXAMPLE_PRICES.gib_hour}"

    def figures(self) -> UpSettings:
        """By which headroom is observed."""
        return UpSettings(prices=read_prices(self.prices))

    def conflicts(self) -> Iterator[Conflict]:
        """A Lease has a namespace and a name, and prices are two numbers."""
        namespace, _, name = self.nodes_lease.partition("/")
        if not namespace or not name or "/" in name:
            yield Conflict("nodes-lease", f'"{self.nodes_lease}" must be written as namespace/name')
        try:
            read_prices(self.prices)
        except InvalidInput as error:
            yield Conflict("prices", str(error))
