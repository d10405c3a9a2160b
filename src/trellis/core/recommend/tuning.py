"""How does a container count memory, if its VPA has a say in it?"""

from __future__ import annotations

from trellis.api.resolve import ContainerMeaning
from trellis.core.usage.settings import Tuning


def tuning_of(container: ContainerMeaning, defaults: Tuning) -> Tuning | None:
    """What a VPA sets for one container, on top of the flags; None if it sets nothing."""
    own = (
        container.memory_window,
        container.memory_windows,
        container.oom_bump_up_ratio,
        container.oom_min_bump_up,
    )
    if all(each is None for each in own):
        return None
    window, windows, ratio, bump = own
    return Tuning(
        memory_window=window.total_seconds() if window is not None else defaults.memory_window,
        memory_windows=windows if windows is not None else defaults.memory_windows,
        oom_bump_up_ratio=ratio.milli / 1000 if ratio is not None else defaults.oom_bump_up_ratio,
        oom_min_bump_up=bump.milli / 1000 if bump is not None else defaults.oom_min_bump_up,
    )
