"""The fields of a configuration file: those that components share, and an object for each component.

    apiVersion: config.trellis.x-k8s.io/v1alpha1
    kind: TrellisConfiguration
    components: [drop-in]
    readOnly: true
    updater:
      minReplicas: 1

Fields, types, limits and descriptions follow from the declarations of settings: the field of `--min-replicas` is
`minReplicas`. A shared setting may also be set for one component.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from trellis.api.schema.fields import Field
from trellis.api.schema.tree import JsonShape, SchemaNode
from trellis.runtime.manager.configuration import API_VERSION, KIND
from trellis.runtime.manager.settings import COMPONENTS, ProcessSettings
from trellis.runtime.settings.declarations import (
    SettingDeclaration,
    Settings,
    build_field_name,
    component_settings,
    declared_settings,
)

DESCRIPTION: Final = (
    "Settings of `trellis run` and of each component. A field at the top holds for all components; the object of a "
    "component has its own settings, and may set shared ones for that component alone."
)

_FLAG: Final = re.compile(r"--([a-z][a-z0-9-]*)")
_TYPE_META: Final = ("apiVersion", "kind")


def shared_fields() -> dict[str, SettingDeclaration]:
    """The settings that all components share, by field."""
    return _by_field(declared_settings(ProcessSettings))


def component_fields(settings: type[Settings], component: str) -> dict[str, SettingDeclaration]:
    """The settings that can be set for one component, by field."""
    return _by_field(component_settings(settings, component))


def secret_fields(settings: type[Settings]) -> dict[str, SettingDeclaration]:
    """The settings that have no field because they are secrets, by the field that they would have."""
    return {declared.field: declared for declared in declared_settings(settings) if declared.setting.secret}


def build_tree(types: Mapping[str, type[Settings]]) -> SchemaNode:
    """The schema of a file. The objects of components without a type are accepted as they are written."""
    members: dict[str, SchemaNode] = {
        "apiVersion": SchemaNode(JsonShape.STRING, Field("Group and version.", required=True, enum=(API_VERSION,))),
        "kind": SchemaNode(JsonShape.STRING, Field("The kind of file.", required=True, enum=(KIND,))),
        **_build_members(shared_fields()),
    }
    for component in COMPONENTS:
        if component in types:
            doc = f"Settings of the component {component}. {_first_line(types[component])}"
            own = _build_members(component_fields(types[component], component), shared_fields())
            members[component] = SchemaNode(JsonShape.OBJECT, Field(doc), members=own)
        else:
            members[component] = SchemaNode(JsonShape.OBJECT, Field(opaque=True))
    return SchemaNode(JsonShape.OBJECT, Field(DESCRIPTION), members=members)


def describe_setting(declared: SettingDeclaration, *, is_shared: bool = False) -> str:
    """Meaning, unit, reason and default of a setting, in the words of the file.

    The default of a shared setting in the object of a component is the value for all components.
    """
    about = declared.setting
    unit = f" Unit: {about.unit}." if about.unit else ""
    if is_shared:
        return name_fields(f"{about.meaning}{unit} Default: the value at the top of the file.")
    default = declared.show(declared.default)
    shown = f" Default: {default}." if default else " No default."
    return name_fields(f"{about.meaning}{unit} {about.why}{shown}")


def name_fields(text: str) -> str:
    """A sentence of a declaration with fields in place of flags."""
    return _FLAG.sub(lambda match: build_field_name(match[1]), text)


def strip_type_meta(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document without `apiVersion` and `kind`."""
    return {name: value for name, value in document.items() if name not in _TYPE_META}


def _by_field(declared: Iterable[SettingDeclaration]) -> dict[str, SettingDeclaration]:
    return {setting.field: setting for setting in declared if setting.has_field}


def _build_members(fields: Mapping[str, SettingDeclaration], shared: Collection[str] = ()) -> dict[str, SchemaNode]:
    return {name: _build_node(declared, name in shared) for name, declared in fields.items()}


def _build_node(declared: SettingDeclaration, is_shared: bool) -> SchemaNode:
    node = declared.kind.schema
    limits: dict[str, Any] = {}
    if node.shape in (JsonShape.INTEGER, JsonShape.NUMBER):
        limits = {"minimum": _whole(declared.setting.minimum), "maximum": _whole(declared.setting.maximum)}
    field = msgspec.structs.replace(node.field, doc=describe_setting(declared, is_shared=is_shared), **limits)
    return msgspec.structs.replace(node, field=field)


def _whole(limit: float | None) -> int | None:
    """A limit as a schema has it; others are checked by the setting alone."""
    return int(limit) if limit is not None and float(limit).is_integer() else None


def _first_line(settings: type[Settings]) -> str:
    return (settings.__doc__ or "").strip().partition("\n")[0]
