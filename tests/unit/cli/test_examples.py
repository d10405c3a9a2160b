"""The manifests in `examples/`: those of the five proposals, and ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from trellis.cli.process.configuration_format import build_configuration_format
from trellis.core.lint.check import CheckResult, check
from trellis.core.lint.manifests import ManifestSource
from trellis.reports.describe import describe_objects

FORMAT = build_configuration_format()
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def examined(*names: str) -> CheckResult:
    files = [path for name in names for path in sorted(EXAMPLES.glob(name))]
    return check([ManifestSource(str(path.relative_to(EXAMPLES)), path.read_bytes()) for path in files], [FORMAT])


def test_every_example_passes() -> None:
    result = examined("**/*.yaml")
    assert [finding.message for finding in result.findings if finding.is_error] == []
    assert len(result.objects) >= 18


def test_the_six_boost_examples_of_the_proposal_are_there() -> None:
    result = examined("startup-boost/*.yaml")
    assert len(result.objects) == 6
    assert {finding.reason.code for finding in result.findings} == {"Deprecated"}


@pytest.mark.req("BF-46", "BF-48")
def test_the_two_buffer_stories_are_there_with_api_version_spelled_right() -> None:
    result = examined("buffers/story-*.yaml")
    assert [ours.manifest.name for ours in result.objects] == ["my-deployment-buffer", "testing-capacity"]
    assert result.findings == ()


def explained(*names: str) -> str:
    return "\n".join(
        sentence for description in describe_objects(examined(*names)) for sentence in description["sentences"]
    )


def test_boost_is_explained_with_the_containers_of_its_workload() -> None:
    assert (
        "The two containers of Deployment web start with three times their recommended CPU until 10 s after Ready."
        in explained("web/*.yaml")
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "startup-boost/boost-only.yaml",
            "Every container of Deployment example starts with three times the CPU it requests until 10 s after Ready.",
        ),
        (
            "startup-boost/container-boost-only.yaml",
            "The container boosted-container-name of Deployment example starts with 2 CPU more than it requests "
            "until the pod is Ready.",
        ),
        (
            "startup-boost/container-without-boost.yaml",
            "Every other container of Deployment example starts with twice its recommended CPU until the pod is Ready.",
        ),
        (
            "actuation-requirements/either-up.yaml",
            "With fewer than 2 running replicas (the updater's default), running pods are not changed.",
        ),
        (
            "startup-boost/container-without-boost.yaml",
            "Not boosted: disable-cpu-boost-for-this-container.",
        ),
        ("recommenders/named.yaml", "The recommender weekly computes the recommendation."),
        (
            "hvpa/story-1.yaml",
            "Replicas by CPU in total: 1 for up to 3, 2 for up to 12, 3 for up to 27, 4 for up to 48, 5 for up to 75, "
            "6 for up to 108, 7 for up to 147, 8 for up to 192.",
        ),
        (
            "hvpa/only-horizontal.yaml",
            "At 4 to 6 replicas only the count changes: each replica has 8 CPU and 20G memory.",
        ),
        (
            "buffers/story-1.yaml",
            "Keeps spare capacity for further pods of Deployment my-deployment: 10 % of its replicas, rounded up",
        ),
        (
            "buffers/story-2.yaml",
            "Keeps up to 40 CPU and 5Gi memory on nodes of CustomComputeClass my-custom-class, "
            "in equal chunks that fit the smallest of them.",
        ),
        ("buffers/office-hours.yaml", "Pods that match app=build use the capacity, and it is not replaced."),
    ],
)
def test_examples_are_explained_in_plain_sentences(name: str, sentence: str) -> None:
    assert sentence in explained(name)
