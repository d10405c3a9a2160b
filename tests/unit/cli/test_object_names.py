"""Objects as kubectl names them: `vpa web`, `vpa/web`, short names, names with a namespace."""

from __future__ import annotations

import click
import pytest

from trellis.api.registry import BUFFER, HVPA, VPA
from trellis.cli.object_names import KIND_NAMES, WORKLOAD_NAMES, find_kind, parse_object_name
from trellis.core.cluster.owners import WELL_KNOWN_KINDS


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("vpa", "web"), ("vpa", "", "web")),
        (("vpa/web",), ("vpa", "", "web")),
        (("VerticalPodAutoscaler/web",), ("vpa", "", "web")),
        (("hvpas/web",), ("hvpa", "", "web")),
        (("buf/web",), ("buffer", "", "web")),
        (("po/web-1",), ("pod", "", "web-1")),
        (("pod", "shop/web-1"), ("pod", "shop", "web-1")),
        (("pod/shop/web-1",), ("pod", "shop", "web-1")),
        (("deploy/web",), ("Deployment", "", "web")),
        (("deployments.apps/web",), ("Deployment", "", "web")),
        (("sts", "db"), ("StatefulSet", "", "db")),
        (("recommendation/web",), ("recommendation", "", "web")),
    ],
)
def test_kind_and_name_are_read_in_every_form(words: tuple[str, ...], named: tuple[str, str, str]) -> None:
    assert parse_object_name(words, "") == named


def test_the_namespace_option_counts_where_the_name_has_none() -> None:
    assert parse_object_name(("vpa/web",), "shop").namespace == "shop"


@pytest.mark.parametrize(
    ("words", "namespace", "message"),
    [
        (("web",), "", 'there is no kind "web"; name an object with its kind, as in vpa/web'),
        (("deplyoment/web",), "", 'did you mean "deployment"?'),
        (("vpa",), "", "name the vpa, as in vpa/web"),
        (("vpa/",), "", "name the vpa, as in vpa/web"),
        (("vpa", "a", "b"), "", "name one object"),
        (("vpa/a", "b"), "", "name one object"),
        (("pod/a/b/c",), "", "name the pod"),
        (("vpa/shop/web",), "other", "in another namespace than -n other"),
    ],
)
def test_what_names_no_object_is_refused(words: tuple[str, ...], namespace: str, message: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        parse_object_name(words, namespace)
    assert message in str(refused.value)


def test_the_names_are_those_that_the_api_server_knows() -> None:
    for kind, own in ((VPA, "vpa"), (HVPA, "hvpa"), (BUFFER, "buffer")):
        for name in (kind.name, kind.plural, *kind.short_names):
            assert find_kind(name) == own
    assert WORKLOAD_NAMES.keys() == WELL_KNOWN_KINDS
    names = [name for kinds in (KIND_NAMES, WORKLOAD_NAMES) for names in kinds.values() for name in names]
    assert len(names) == len(set(names))
