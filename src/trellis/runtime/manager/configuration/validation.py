"""Finds every problem of a configuration file, in the words in which objects of our kinds are refused.

Types of JSON, unknown fields and simple limits are checked as those of our kinds are. What only a setting knows, and
rules over several settings, are checked by the settings themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from trellis.api.problems import (
    FORBIDDEN,
    HIDDEN,
    INVALID,
    SUSPICIOUS,
    UNKNOWN_FIELD,
    WRONG_TYPE,
    Path,
    ValidationProblem,
)
from trellis.api.schema.tree import JsonShape, SchemaNode
from trellis.api.validation import SchemaValidator
from trellis.base.errors import InvalidInput, format_value
from trellis.runtime.manager.configuration.fields import (
    build_tree,
    component_fields,
    name_fields,
    secret_fields,
    shared_fields,
    strip_type_meta,
)
from trellis.runtime.manager.layers import SettingsLayer, SettingTypes, list_defaults, list_sources
from trellis.runtime.manager.settings import COMPONENTS, ProcessSettings
from trellis.runtime.settings.declarations import SUFFIX_OF_FILES, SettingDeclaration, Settings
from trellis.runtime.settings.loader import WrittenValue, combine_settings, find_conflicts, get_setting
from trellis.runtime.telemetry.logs import redact

_NUMBERS: Final = (int, float)


def find_problems(types: SettingTypes, document: Mapping[str, Any]) -> list[ValidationProblem]:
    """Every problem of a file, errors and warnings. The objects of components without a type are not checked."""
    tree = build_tree(types)
    misplaced = list(_find_misplaced(types, document))
    rest = _without(document, {problem.path for problem in misplaced})
    found = [*misplaced, *(_with_hint(problem, tree) for problem in SchemaValidator({}).check(tree, rest, ()))]
    # A wrong name of the kind is reported where the kind is recognised.
    found = [problem for problem in found if problem.path not in (("apiVersion",), ("kind",))]
    wrong = {problem.path for problem in found}
    for path, declared, value in _iterate_values(types, rest):
        if not any(place[: len(path)] == path for place in wrong):
            found += _check_value(path, declared, value)
    if not found:
        found += _find_broken_rules(types, rest)
    return found


def build_layer(types: SettingTypes, document: Mapping[str, Any], describe: Callable[[Path], str]) -> SettingsLayer:
    """The values of a valid file; `describe` says where the field at a path is written."""
    shared: dict[str, WrittenValue] = {}
    components: dict[str, dict[str, WrittenValue]] = {}
    for path, declared, value in _iterate_values(types, document):
        values = components.setdefault(declared.component, {}) if declared.component else shared
        values[declared.name] = WrittenValue(value, describe(path))
    return SettingsLayer(shared, components)


def _iterate_values(types: SettingTypes, document: Mapping[str, Any]) -> Iterator[tuple[Path, SettingDeclaration, Any]]:
    """The values that are there; null is as good as nothing, as in every object of Kubernetes."""
    shared = shared_fields()
    for name, value in document.items():
        if name in shared and value is not None:
            yield (name,), shared[name], value
        elif name in types and isinstance(value, dict):
            own = component_fields(types[name], name)
            for field, inner in value.items():
                if field in own and inner is not None:
                    yield (name, field), own[field], inner


def _check_value(path: Path, declared: SettingDeclaration, value: Any) -> Iterator[ValidationProblem]:
    if any(isinstance(text, str) and redact(text) != text for text in (value if isinstance(value, list) else [value])):
        rule = "it contains what looks like a password or token: write only paths of files with secrets in this file"
        yield ValidationProblem(path, FORBIDDEN, rule, HIDDEN)
        return
    try:
        declared.read(value)
    except InvalidInput as error:
        rule = error.rule if error.value == value else f"{format_value(error.value)} {error.rule}"
        yield ValidationProblem(path, INVALID, name_fields(rule), value)


def _find_misplaced(types: SettingTypes, document: Mapping[str, Any]) -> Iterator[ValidationProblem]:
    """Settings that are secrets, or belong elsewhere: the message says where to write them."""
    shared = shared_fields()
    for name, value in strip_type_meta(document).items():
        if name in types and isinstance(value, dict):
            own, secrets = component_fields(types[name], name), secret_fields(types[name])
            for field in value:
                if field in secrets:
                    yield _refuse_secret((name, field), f"{name}.{field}")
                elif field in shared and field not in own:
                    rule = f"{field} is set for all components of a process: write it at the top of the file"
                    yield ValidationProblem((name, field), UNKNOWN_FIELD, rule)
        elif name not in shared and name not in COMPONENTS:
            for component, settings in types.items():
                if name in secret_fields(settings):
                    yield _refuse_secret((name,), f"{component}.{name}")
                    break
                if name in component_fields(settings, component):
                    rule = f"{name} is a setting of a component: write it in the object {component}"
                    yield ValidationProblem((name,), UNKNOWN_FIELD, rule)
                    break


def _refuse_secret(path: Path, field: str) -> ValidationProblem:
    file = f"{field}{SUFFIX_OF_FILES.removeprefix('-').capitalize()}"
    rule = f"a secret must not be in this file: mount it as a file, and set the path of that file in {file}"
    return ValidationProblem(path, FORBIDDEN, rule, HIDDEN)


def _without(document: Mapping[str, Any], places: set[Path]) -> dict[str, Any]:
    rest: dict[str, Any] = {}
    for name, value in document.items():
        if (name,) in places:
            continue
        inner = isinstance(value, dict) and any(place[0] == name for place in places)
        rest[name] = {key: item for key, item in value.items() if (name, key) not in places} if inner else value
    return rest


def _with_hint(problem: ValidationProblem, tree: SchemaNode) -> ValidationProblem:
    """The problem, with what to write where a value of YAML has another type than it looks like."""
    node = _find_node(tree, problem.path)
    if problem.reason is not WRONG_TYPE or node is None:
        return problem
    if node.shape is JsonShape.LIST and isinstance(problem.value, str):
        hint = f"; write [{problem.value}]"
    elif node.shape is not JsonShape.STRING or not isinstance(problem.value, _NUMBERS):
        return problem
    elif node.field.pattern and not isinstance(problem.value, bool):
        hint = f"; a duration has a unit: write {problem.value}s for seconds"
    else:
        hint = "; put it in quotes"
    return msgspec.structs.replace(problem, rule=problem.rule + hint)


def _find_node(node: SchemaNode | None, path: Path) -> SchemaNode | None:
    for step in path:
        if node is None:
            return None
        node = node.items if isinstance(step, int) else node.members.get(step)
    return node


def _find_broken_rules(types: SettingTypes, document: Mapping[str, Any]) -> Iterator[ValidationProblem]:
    """Rules over several settings, on the values of the file and the defaults; objects that have no effect."""
    layer = build_layer(types, document, lambda path: ".".join(map(str, path)))
    process = combine_settings(ProcessSettings, layer.shared).settings
    loaded: dict[str, Settings] = {"": process}
    for name, settings in types.items():
        loaded[name] = combine_settings(settings, *list_sources(name, [layer]), list_defaults(settings)).settings
    problems: dict[tuple[Path, str], ValidationProblem] = {}
    for component, values in loaded.items():
        for declared, rule in find_conflicts(values):
            path = _find_path(document, component, declared.field)
            shown = declared.show(get_setting(values, declared))
            problems.setdefault((path, rule), ValidationProblem(path, INVALID, name_fields(rule), shown))
    yield from problems.values()
    chosen = process.choice.chosen
    for name in document:
        # A process of one component runs whatever the file lists.
        if name in COMPONENTS and name not in chosen and set(types) == set(COMPONENTS):
            rule = f"has no effect in trellis run: {name} is not among components ({', '.join(chosen)})"
            yield ValidationProblem((name,), SUSPICIOUS, rule)


def _find_path(document: Mapping[str, Any], component: str, field: str) -> Path:
    """Where the value of a setting is written, or would be."""
    own = document.get(component)
    is_own = component and (field not in document or (isinstance(own, dict) and field in own))
    return (component, field) if is_own else (field,)
