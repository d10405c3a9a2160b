"""VerticalPodAutoscalerCheckpoint, `autoscaling.k8s.io/v1`: the stored usage history of one container, format "v3".

The format is upstream's, so that a cluster can move from one to the other and back without losing history. Trellis
adds the two histograms of the whole workload, hourly history, recent runs and long-term memory peaks; upstream prunes
these fields and does not need them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from trellis.api.kinds.parts import ApiStruct
from trellis.api.kube.meta import ObjectMeta
from trellis.api.schema.fields import Field, TimeText

CHECKPOINT_VERSION = "v3"
RUNS_LENGTH = 8_192
PEAKS_LENGTH = 4_096
HISTORY_LENGTH = 16_384  # characters; ten thousand such checkpoints are 160 MB in etcd, of the 2 GB it has by default


class HistogramCheckpoint(ApiStruct, frozen=True):
    """A decaying histogram: weights by histogram bin, scaled to integers."""

    reference_timestamp: Annotated[
        TimeText | None,
        Field("Reference time of the decay: a sample at this time has its original weight.", nullable=True),
    ] = None
    bucket_weights: Annotated[
        dict[str, int] | None,
        Field("Weights by histogram bin; keys are indexes of bins in decimal, values are at most 10000.", opaque=True),
    ] = None
    total_weight: Annotated[float | None, Field("The sum of the weights before scaling.")] = None


class CheckpointSpec(ApiStruct, frozen=True):
    """The VerticalPodAutoscaler and the container of the history."""

    vpa_object_name: Annotated[str, Field("The VerticalPodAutoscaler, in the same namespace.")] = msgspec.field(
        default="", name="vpaObjectName"
    )
    container_name: Annotated[str, Field("The container.")] = ""


class CheckpointStatus(ApiStruct, frozen=True):
    """The history itself."""

    last_update_time: Annotated[TimeText | None, Field("When the checkpoint was last written.", nullable=True)] = None
    version: Annotated[str, Field('The format, "v3".')] = ""
    cpu_histogram: Annotated[HistogramCheckpoint | None, Field("CPU usage.")] = None
    memory_histogram: Annotated[HistogramCheckpoint | None, Field("Memory peaks.")] = None
    cpu_total_histogram: Annotated[
        HistogramCheckpoint | None, Field("CPU usage of all replicas together.", added=True)
    ] = None
    memory_total_histogram: Annotated[
        HistogramCheckpoint | None, Field("Memory peaks of all replicas together.", added=True)
    ] = None
    first_sample_start: Annotated[TimeText | None, Field("Start of the oldest sample.", nullable=True)] = None
    last_sample_start: Annotated[TimeText | None, Field("Start of the newest sample.", nullable=True)] = None
    total_samples_count: Annotated[int | None, Field("Number of samples.")] = None
    history: Annotated[
        str, Field("Hourly summaries of recent usage, compressed.", added=True, max_length=HISTORY_LENGTH)
    ] = ""
    runs: Annotated[
        str,
        Field("Usage of recent runs, by the time since their start, compressed.", added=True, max_length=RUNS_LENGTH),
    ] = ""
    peaks: Annotated[
        str,
        Field(
            "Memory peaks of the last 280 days, one for every six hours, compressed.",
            added=True,
            max_length=PEAKS_LENGTH,
        ),
    ] = ""


class VerticalPodAutoscalerCheckpoint(ApiStruct, frozen=True):
    """The stored history of one container."""

    api_version: str = "autoscaling.k8s.io/v1"
    kind: str = "VerticalPodAutoscalerCheckpoint"
    metadata: ObjectMeta = ObjectMeta()
    spec: CheckpointSpec = CheckpointSpec()
    status: CheckpointStatus | None = None
