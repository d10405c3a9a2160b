"""`trellis recommender`: writes recommendations into the VPAs that name it."""

from __future__ import annotations

from trellis.cli.component import component
from trellis.controllers.recommender.process import recommending
from trellis.controllers.recommender.settings import RecommenderSettings

command = component(
    "recommender",
    "Recommend how big containers should be, as upstream does.",
    RecommenderSettings,
    log_settings=lambda settings: settings.logs,
    start=recommending,
)
