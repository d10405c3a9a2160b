"""`trellis explain` as a user runs it, from a dump."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from support import virtual_time
from support.api_server.server import ModelServer
from support.builders.collected_clusters import Cluster, search
from support.worlds.resizes import NOW, container, time
from trellis.base.errors import InvalidInput, InvalidRecording
from trellis.cli.commands.explain import wait_for_recommendation
from trellis.cli.main import trellis
from trellis.core.cluster.dump_format import DumpedComponent, MissingData


def dumped(path: Path, cluster: Cluster | None = None) -> Path:
    """A cluster with a pod that is too small, as a file."""
    if cluster is None:
        cluster = Cluster()
        cluster.add_workload()
        cluster.add_vpa("web", {"app": {"cpu": "2", "memory": "2Gi"}})
        cluster.add_checkpoint()
        cluster.use("web-1-0")
    file = path / "dump.jsonl.gz"
    file.write_bytes(gzip.compress(b"".join(cluster.lines())))
    return file


def explain(*arguments: object) -> Result:
    return CliRunner().invoke(trellis, ["explain", *map(str, arguments)])


def test_a_vpa_a_pod_and_a_recommendation_are_explained(tmp_path: Path) -> None:
    file = dumped(tmp_path)
    for kind, name, sentence in (
        ("vpa", "web", "It governs 2 pods of Deployment web in mode Recreate"),
        ("pod", "shop/web-1-0", "EvictToRecreate"),
        ("recommendation", "web", "RECOMMENDATION FOR CONTAINER app"),
    ):
        result = explain(kind, name, "--dump", file)
        assert (result.exit_code, sentence in result.output) == (0, True), result.output


def test_an_hvpa_is_explained_with_a_drawing(tmp_path: Path) -> None:
    result = explain("hvpa", "search", "--dump", dumped(tmp_path, search()))
    assert result.exit_code == 0, result.output
    assert "Decided: 3 replicas of CPU 8 and memory 5G each." in result.output
    assert "decided: 3 replicas for 24" in result.output
    document = json.loads(explain("hvpa", "shop/search", "--json", "--dump", dumped(tmp_path, search())).output)
    assert (document["kind"], document["hvpa"]["count"]) == ("hvpa", 3)


def test_a_namespace_that_has_an_hvpa_alone_is_found(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.add_hvpa("web")
    result = explain("hvpa", "web", "--dump", dumped(tmp_path, cluster))
    assert "TargetNotFound" in result.output


def test_json_is_the_structure(tmp_path: Path) -> None:
    result = explain("vpa", "web", "-n", "shop", "--dump", dumped(tmp_path), "--json")
    document = json.loads(result.output)
    assert result.exit_code == 0
    assert (document["kind"], document["vpa"]["mode"], len(document["pods"])) == ("vpa", "Recreate", 2)


def test_the_flags_of_the_components_count(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.add_workload()
    cluster.add_vpa("web", {"app": {"cpu": "2", "memory": "2Gi"}})
    cluster.use("web-1-0")
    cluster.components = [DumpedComponent("updater", "kube-system", "updater", flags={"min-replicas": "3"})]
    result = explain("pod", "web-1-0", "--dump", dumped(tmp_path, cluster))
    assert "TooFewReplicas" in result.output


@pytest.mark.parametrize(
    ("given", "flag", "decided"),
    [
        ((), {}, "3 replicas of CPU 8"),
        (("--ready-patience", "10s"), {}, "2 replicas of CPU 4.5"),
        ((), {"ready-patience": "10s"}, "2 replicas of CPU 4.5"),
        (("--ready-patience", "1m"), {"ready-patience": "10s"}, "3 replicas of CPU 8"),
    ],
)
def test_the_patience_of_the_hvpa_controller_counts(
    tmp_path: Path, given: tuple[str, ...], flag: dict[str, str], decided: str
) -> None:
    """The count moved half a minute ago: until its patience is over, an HPA's metrics are not believed."""
    cluster = recently_scaled()
    cluster.components.append(DumpedComponent("hvpa", "kube-system", "hvpa", flags=flag))
    result = explain("hvpa", "web", *given, "--dump", dumped(tmp_path, cluster))
    assert decided in result.output
    assert "FlagsNotObserved" not in result.output


def recently_scaled() -> Cluster:
    """Three replicas of 8 cores, of which the HPA sees 9 used."""
    cluster = Cluster()
    cluster.add_workload("web", 3, container(cpu="8", memory="2G"))
    down = {"stabilizationWindow": "0s"}
    status = {"lastScaleTime": time(NOW - 30), "hpa": {"total": {"cpu": "24"}, "time": time(NOW - 90)}}
    cluster.add_hvpa("web", vpa={"deploy": False}, hpa={"deploy": True}, scaleDown=down, status=status)
    cluster.add_hvpa_hpa("web", percent=100, used="3")
    return cluster


@pytest.mark.parametrize("span", ["0s", "-1d", "soon"])
@pytest.mark.parametrize(
    "command", [("explain", "vpa", "web"), ("dump",), ("backtest", "usage.csv"), ("recommend", "usage.csv")]
)
def test_a_history_that_is_no_span_is_refused_by_every_command(command: tuple[str, ...], span: str) -> None:
    with pytest.raises(InvalidInput, match=f'^"{span}": flag --history: must be'):
        CliRunner().invoke(trellis, [*command, f"--history={span}"], catch_exceptions=False)


def test_a_patience_that_is_none_is_refused(tmp_path: Path) -> None:
    file = dumped(tmp_path, search())
    for text in ("-1s", "soon"):
        arguments = ["explain", "hvpa", "search", f"--ready-patience={text}", "--dump", str(file)]
        with pytest.raises(InvalidInput, match=f'^"{text}": flag --ready-patience: '):
            CliRunner().invoke(trellis, arguments, catch_exceptions=False)


def test_a_partial_explanation_is_marked_and_has_its_exit_status(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.add_workload()
    cluster.add_vpa()
    cluster.use("web-1-0")
    cluster.missing = [MissingData("Event", "shop", "is forbidden")]
    result = explain("vpa", "web", "--dump", dumped(tmp_path, cluster))
    assert result.exit_code == 1
    assert "This answer is partial" in result.output
    assert "Event in shop: is forbidden" in result.output


def test_an_unknown_name_is_reported_with_the_nearest(tmp_path: Path) -> None:
    result = explain("vpa", "wbe", "--dump", dumped(tmp_path))
    assert isinstance(result.exception, InvalidInput)
    assert 'did you mean "web"' in str(result.exception)


def test_of_several_namespaces_one_has_to_be_chosen(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.add_workload()
    cluster.add_vpa()
    cluster.put("Pod", "lonely", namespace="cellar")
    file = dumped(tmp_path, cluster)
    result = explain("vpa", "web", "--dump", file)
    assert result.exit_code == 2
    assert "the dump has cellar, shop" in result.output
    assert "governs" in explain("vpa", "shop/web", "--dump", file).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("vpa", "web", "--container", "app"), "--container needs a recommendation"),
        (("vpa", "web", "--ready-patience", "1m"), "--ready-patience needs an Hvpa"),
        (("vpa", "shop/web", "-n", "other"), "in another namespace than -n other"),
        (("vpa", "web", "--prometheus-url", "http://p"), "a dump brings its own history"),
        (("nodez", "n1"), 'there is no kind "nodez" (did you mean "node"?)'),
    ],
)
def test_options_that_do_not_fit_together_are_refused(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    result = explain(*arguments, "--dump", dumped(tmp_path))
    assert (result.exit_code, message in result.output) == (2, True), result.output


def test_a_workload_instead_of_a_pod_leads_to_a_pod_of_it_and_kinds_may_be_large(tmp_path: Path) -> None:
    refused = explain("Pod", "web", "-n", "shop", "--dump", dumped(tmp_path)).exception
    assert 'there is no Pod of that name in namespace shop (did you mean "web-1-0"?)' in str(refused)


def test_a_file_that_is_no_dump_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello\n")
    refused = explain("vpa", "web", "--dump", file).exception
    assert isinstance(refused, InvalidRecording)
    assert str(refused).startswith(f'"{file}": "hello": line 1 is not valid in a recording')


def test_a_file_that_is_no_dump_is_refused_with_its_first_bytes(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(b"begins" + bytes(range(128, 256)) * 1000)
    refused = explain("vpa", "web", "--dump", file).exception
    assert isinstance(refused, InvalidRecording)
    text = str(refused).removeprefix(f'"{file}": ')
    assert text.startswith('"begins')
    assert "is not valid in a recording or a dump" in text
    assert len(text) < 200


def test_a_compressed_dump_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    renamed = tmp_path / "renamed.jsonl"
    renamed.write_bytes(dumped(tmp_path).read_bytes())
    assert explain("vpa", "web", "-n", "shop", "--dump", renamed).output == (
        explain("vpa", "web", "-n", "shop", "--dump", dumped(tmp_path)).output
    )


def test_an_explanation_from_a_truncated_dump_is_partial(tmp_path: Path) -> None:
    lines = gzip.decompress(dumped(tmp_path).read_bytes()).splitlines(keepends=True)
    file = tmp_path / "cut.jsonl"
    file.write_bytes(b"".join(lines[:-1]))
    result = explain("vpa", "web", "--dump", file)
    assert result.exit_code == 1
    assert "DumpCutOff: the dump is truncated: what followed its last line is missing." in result.output
    file.write_bytes(b"".join(lines[:2]))
    assert "in namespace shop (the dump is truncated)" in str(explain("vpa", "shop/web", "--dump", file).exception)


def test_the_forms_of_kubectl_give_the_answers_of_the_older_form(tmp_path: Path) -> None:
    file = dumped(tmp_path)
    older = explain("vpa", "web", "-n", "shop", "--dump", file).output
    for words in (("vpa/web",), ("vpa/shop/web",), ("verticalpodautoscaler", "web"), ("VPA", "shop/web")):
        assert explain(*words, "--dump", file).output == older


def test_a_workload_is_explained_as_a_whole(tmp_path: Path) -> None:
    file = dumped(tmp_path)
    result = explain("deployment", "web", "--dump", file)
    assert result.exit_code == 0, result.output
    assert "Size: VerticalPodAutoscaler web governs 2 pods of Deployment web in mode Recreate" in result.output
    assert "Count: 2 replicas" in result.output
    assert "Spare capacity: no Buffer." in result.output
    document = json.loads(explain("deploy/web", "--dump", file, "-o", "json").output)
    assert (document["kind"], document["workload"]["kind"], document["workload"]["replicas"]) == (
        "deployment",
        "Deployment",
        2,
    )


VPA_PATH = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/web"


def stored_vpa(**status: object) -> dict[str, Any]:
    spec = {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec,
        "status": status,
    }


def wait_while(seconds_to_recommendation: float, most_seconds: float) -> tuple[bool, float]:
    """Whether the wait for a recommendation ends with one, and how long it takes."""
    server = ModelServer()
    server.put(VPA_PATH, stored_vpa(recommendation={"containerRecommendations": []}))

    async def measure() -> tuple[bool, float]:
        loop = asyncio.get_running_loop()
        container = {"containerName": "app", "target": {"cpu": "250m"}}
        recommended = stored_vpa(recommendation={"containerRecommendations": [container]})
        loop.call_later(seconds_to_recommendation, lambda: server.put(VPA_PATH, recommended))
        result = await wait_for_recommendation(server.client, "shop", "web", most_seconds)
        return result, loop.time()

    return virtual_time.run(measure())


def test_a_wait_ends_soon_after_the_recommendation_comes() -> None:
    found, seconds = wait_while(40.5, 180)
    assert found
    assert 40.5 <= seconds <= 41.5


def test_a_wait_without_a_recommendation_ends_in_time() -> None:
    assert wait_while(400, 180) == (False, 180)


def test_there_is_no_wait_for_a_vpa_that_does_not_exist() -> None:
    assert virtual_time.run(wait_for_recommendation(ModelServer().client, "shop", "web", 180)) is False


@pytest.mark.parametrize("arguments", [("pod", "web-1-0", "--wait", "3m"), ("vpa", "web", "--wait=3m", "--dump=-")])
def test_only_a_vpa_of_a_cluster_can_be_waited_for(arguments: tuple[str, ...]) -> None:
    result = explain(*arguments)
    assert (result.exit_code, "--wait needs a VPA of a cluster" in result.output) == (2, True)


def test_a_wait_must_have_a_unit() -> None:
    result = explain("vpa", "web", "--wait", "180")
    assert isinstance(result.exception, InvalidInput)
