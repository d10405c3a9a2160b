"""What `trellis check` says of single documents: one clear line each, with its place, and never a traceback."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.core.lint.check import CheckResult, check
from trellis.core.lint.manifests import ManifestSource

GOOD = """\
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata:
  name: web
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
"""


def checked(text: str | bytes, named: bool = True) -> CheckResult:
    return check([ManifestSource("a.yaml", text.encode() if isinstance(text, str) else text, named)])


def lines(text: str | bytes) -> list[str]:
    """Place, reason and message of every finding."""
    return [
        f"{finding.line}:{finding.column} {finding.reason} {finding.path}: {finding.message}".replace(" :", ":")
        for finding in checked(text).findings
    ]


def test_a_good_document_has_no_findings() -> None:
    result = checked(GOOD)
    assert result.findings == ()
    assert len(result.objects) == 1


def test_a_finding_has_file_document_line_and_path() -> None:
    (finding,) = checked(
        GOOD + "---\n" + GOOD.replace("name: web", "name: api") + "  updatePolicy: {updateMode: Sometimes}\n"
    ).findings
    assert (finding.file, finding.document, finding.line, finding.column) == ("a.yaml", 2, 14, 18)
    assert finding.path == "spec.updatePolicy.updateMode"
    assert finding.object == "VerticalPodAutoscaler api"


def test_a_missing_field_is_shown_at_its_parent() -> None:
    assert lines(
        GOOD.replace("  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n", "  recommenders: []\n")
    ) == ["5:1 Required spec.targetRef: Required value: targetRef must be given"]


def test_a_misspelled_apiversion_is_reported_and_the_object_is_checked() -> None:
    assert lines(GOOD.replace("apiVersion: autoscaling", "apiversion: autoscaling") + "  typo: 1\n") == [
        '1:1 UnknownField apiversion: Unknown field: there is no field "apiversion" here (did you mean "apiVersion"?)',
        '7:3 UnknownField spec.typo: Unknown field: there is no field "typo" here',
    ]


def test_a_mistyped_kind_gets_the_nearest_one() -> None:
    assert lines(GOOD.replace("kind: VerticalPodAutoscaler", "kind: VerticalPodAutoScaler")) == [
        '2:1 UnknownKind kind: there is no kind "VerticalPodAutoScaler" in autoscaling.k8s.io '
        '(did you mean "VerticalPodAutoscaler"?)'
    ]


def test_a_version_that_is_served_no_more_is_reported() -> None:
    assert lines(GOOD.replace("k8s.io/v1\n", "k8s.io/v1beta2\n")) == [
        "1:1 UnknownKind apiVersion: autoscaling.k8s.io/v1beta2 is no longer served: write autoscaling.k8s.io/v1"
    ]


def test_foreign_kinds_are_ignored() -> None:
    others = """\
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: x}
---
apiVersion: v1
kind: ConfigMap
data: {a: 1}
---
apiVersion: example.com/v1
kind: Buffer
spec: {size: 3}
"""
    assert lines(others) == []


def test_off_without_quotes_is_explained() -> None:
    (line,) = lines(GOOD + "  updatePolicy: {updateMode: Off}\n")
    assert 'Off without quotes is a boolean in YAML: write "Off"' in line
    assert lines(GOOD + '  updatePolicy: {updateMode: "Off"}\n') == []


def test_a_whole_number_with_a_point_is_read_as_kubectl_sends_it() -> None:
    assert lines(GOOD + "  startupBoost: {cpu: {type: Factor, factor: 2.0}}\n") == []


def test_objects_of_a_list_are_checked_at_their_own_lines() -> None:
    listed = "apiVersion: v1\nkind: List\nitems:\n- " + GOOD.replace("\n", "\n  ").rstrip() + "\n    oops: 1\n"
    assert lines(listed) == ['10:5 UnknownField spec.oops: Unknown field: there is no field "oops" here']


# Bad input


def test_a_yaml_error_has_line_and_column_and_hides_no_other_document() -> None:
    text = "a: b: c\n---\n" + GOOD + "  typo: 1\n"
    first, second = lines(text)
    assert first.startswith("1:5 Unreadable")
    assert second.startswith("9:3 UnknownField")


def test_tabs_are_called_tabs() -> None:
    (line,) = lines("spec:\n\ttargetRef: {}\n")
    assert line.startswith("2:1 Unreadable")
    assert "tab" in line


def test_duplicate_keys_are_found() -> None:
    (line,) = lines(GOOD + "  targetRef: {kind: Job, name: x}\n")
    assert line.startswith("7:3 Unreadable")
    assert "line 6" in line


def test_anchors_that_explode_are_refused() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
    names = "abcdefghi"
    bomb += "".join(f"{new}: &{new} [{','.join('*' + old for _ in range(10))}]\n" for old, new in pairwise(names))
    (line,) = lines(bomb)
    assert "Unreadable" in line


def test_a_document_beyond_the_api_servers_limit_is_refused_unread() -> None:
    (line,) = lines("kind: X\ndata: '" + "x" * 10_000_000 + "'\n")
    assert line.startswith("1:1 Unreadable")
    assert "larger than the 3145728 bytes" in line


def test_bytes_that_are_no_utf_8_are_refused() -> None:
    (line,) = lines(b"kind: \xff\xfe\n")
    assert "Unreadable" in line


def test_unicode_names_are_refused_by_the_rule_of_names() -> None:
    (line,) = lines(GOOD.replace("  name: web\nspec", "  name: wéb\nspec"))
    assert line.startswith("4:3 Invalid metadata.name: Invalid value")
    assert "must consist of a-z, 0-9, '-' and '.'" in line


def test_a_document_that_is_no_object_is_reported_if_its_file_was_named() -> None:
    for text in ("just text\n", "- a\n- b\n", "42\n", "replicas: 3\n"):
        assert [finding.reason.code for finding in checked(text).findings] == ["NotAnObject"]
        assert checked(text, named=False).findings == ()


def test_wrong_types_at_every_level_are_reported_without_a_traceback() -> None:
    for field in ("metadata: 3", "metadata: []", "spec: text", "spec: [1]", "spec: {targetRef: 1}", "spec: null"):
        document = f"apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\n{field}\n"
        assert lines(document), field


def test_a_kind_that_is_no_text_is_reported() -> None:
    assert checked("apiVersion: autoscaling.k8s.io/v1\nkind: [VerticalPodAutoscaler]\n").findings == ()
    assert checked("apiVersion: 1\nkind: VerticalPodAutoscaler\n").findings != ()


@settings(max_examples=80)
@given(st.data())
def test_a_damaged_manifest_never_brings_the_check_down(data: st.DataObject) -> None:
    text = GOOD + "  updatePolicy: {updateMode: InPlace, minReplicas: 2}\n  recommenders: [{name: a}]\n"
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    put = data.draw(
        st.sampled_from(["", "\t", "- ", ": ", "{", "}", "[", '"', "null", "&a ", "*a", "\n", "!!x", "1e9", "~"])
    )
    for finding in checked(text[:start] + put + text[end:]).findings:
        assert "\n" not in finding.message
        assert finding.line >= 1
