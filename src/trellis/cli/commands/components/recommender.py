"""`trellis recommender`: writes recommendations into the VPAs that name it."""

from __future__ import annotations

from trellis.cli.component import component_command
from trellis.controllers.recommender.process import recommender_main
from trellis.controllers.recommender.settings import RecommenderSettings

command = component_command(
    "recommender",
    "Recommend CPU and memory for the containers of VPAs.",
    RecommenderSettings,
    log_settings=lambda settings: settings.logs,
    start=recommender_main,
)
