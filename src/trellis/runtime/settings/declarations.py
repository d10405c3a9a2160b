"""Declarations of settings: each is a typed field of a frozen struct.

    class LoopSettings(Settings, frozen=True):
        interval: Annotated[
            Duration,
            Setting("Time between two passes.", why="Metrics are a minute old anyway.", flag="recommender-interval"),
        ] = Duration.from_seconds(60)

The flag, the variable, the field of a configuration file, the help of the command line, the schema and the reference
page all follow from that. A field whose type is another `Settings` is a group: its settings stand beside the others
under their own names, and the default of the field is the default of them all. A default must therefore exist for every
setting. Help and reference show the settings in these groups, under the `title` of each, and those named in `most_used`
first.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import cache
from typing import Any, ClassVar, Final

import msgspec

from trellis.base.errors import InternalError, InvalidInput
from trellis.runtime.settings.values import SettingType, choice_type, get_setting_type

VARIABLE_PREFIX: Final = "TRELLIS_"
# A secret has no field in a file: the setting of this name has the path of another file, which contains it.
SUFFIX_OF_FILES: Final = "-file"


class Reload(IntEnum):
    """What it takes to apply a changed value of a configuration file to a process that runs."""

    AT_ONCE = 0
    RESTART_OF_COMPONENT = 1
    RESTART_OF_PROCESS = 2


class Setting(msgspec.Struct, frozen=True):
    """The meaning of a setting, the reason for its default, and its limits.

    `flag` replaces the default name, which is that of the field with dashes. `letter` is a flag of one letter.
    `variable` is an environment variable that is read if Trellis' own is not set. `minimum` and `maximum` are
    inclusive. `check` returns the rule that a value breaks, or None. A `secret` is never shown. An `obsolete` setting
    is accepted and has no effect. A setting `of_process` has one value for all components of a process. `reload`
    replaces what its group says.
    """

    meaning: str
    why: str
    unit: str = ""
    flag: str = ""
    letter: str = ""
    variable: str = ""
    choices: tuple[str, ...] = ()
    minimum: Any = None
    maximum: Any = None
    check: Callable[[Any], str | None] | None = None
    secret: bool = False
    obsolete: bool = False
    of_process: bool = False
    reload: Reload | None = None


class SettingConflict(msgspec.Struct, frozen=True):
    """A broken rule between settings: the name of the setting at fault, and the rule."""

    setting: str
    rule: str


class Settings(msgspec.Struct, frozen=True):
    """The base of all structs of settings.

    `title` stands above the group in help and reference. `most_used` names the settings of a component that are shown
    first. All settings of a group `of_process` are settings of the process. `reload` is what applies a changed value of
    its settings, unless a group or a setting below says otherwise.
    """

    title: ClassVar[str] = "Settings"
    most_used: ClassVar[tuple[str, ...]] = ()
    of_process: ClassVar[bool] = False
    reload: ClassVar[Reload | None] = None

    def conflicts(self) -> Iterator[SettingConflict]:
        """The rules between several settings that these values break."""
        return iter(())


class SettingDeclaration(msgspec.Struct, frozen=True):
    """A setting as it follows from its declaration; `path` leads to its field through the groups.

    `component` is the component whose setting it is, in a process of several.
    """

    path: tuple[str, ...]
    name: str
    kind: SettingType
    default: Any
    setting: Setting
    optional: bool
    reload: Reload
    component: str = ""

    @property
    def field(self) -> str:
        """The name of its field in a configuration file: `minReplicas`."""
        return build_field_name(self.name)

    @property
    def has_field(self) -> bool:
        """Whether a configuration file may contain it: neither secrets nor what has no effect."""
        return not self.setting.secret and not self.setting.obsolete

    @property
    def flag(self) -> str:
        """The name of its flag: `updater.min-replicas` in a process of several components."""
        return f"{self.component}.{self.name}" if self.component else self.name

    @property
    def letter(self) -> str:
        """The flag of one letter; in a process of several components shared settings alone have one."""
        return "" if self.component else self.setting.letter

    @property
    def variable(self) -> str:
        """The environment variable of the setting."""
        return VARIABLE_PREFIX + _with_underscores(self.flag).upper()

    @property
    def parameter(self) -> str:
        """The name of its parameter in click."""
        return _with_underscores(self.flag)

    def read(self, value: object) -> Any:
        """The parsed value; raises `InvalidInput` with the rule that it breaks."""
        if self.optional and value in ("", None):
            return None
        parsed = self.kind.read(value)
        about = self.setting
        if about.minimum is not None and parsed < about.minimum:
            raise InvalidInput(value, f"must be at least {self.kind.show(about.minimum)}")
        if about.maximum is not None and parsed > about.maximum:
            raise InvalidInput(value, f"must be at most {self.kind.show(about.maximum)}")
        problem = about.check(parsed) if about.check else None
        if problem:
            raise InvalidInput(value, problem)
        return parsed

    def show(self, value: Any) -> str:
        """A value as it is written in a flag; empty if there is none."""
        if value is None:
            return ""
        return "(hidden)" if self.setting.secret and value else self.kind.show(value)


@cache
def declared_settings(settings: type[Settings], defaults: Settings | None = None) -> tuple[SettingDeclaration, ...]:
    """Every setting of a struct and of its groups, in the order of declaration."""
    reload = settings.reload if settings.reload is not None else Reload.RESTART_OF_COMPONENT
    declared = tuple(_iterate_declarations(settings, defaults or settings(), (), reload))
    names = [declaration.name for declaration in declared]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InternalError(f"{settings.__name__} declares a setting twice: {', '.join(sorted(twice))}")
    return declared


@cache
def component_settings(settings: type[Settings], component: str) -> tuple[SettingDeclaration, ...]:
    """The settings that can be set for one component in a process of several; all of them for a process of its own."""
    if not component:
        return declared_settings(settings)
    return tuple(
        msgspec.structs.replace(declaration, component=component)
        for declaration in declared_settings(settings)
        if not declaration.setting.of_process
    )


def _iterate_declarations(
    settings: type[Settings], defaults: Settings, path: tuple[str, ...], reload: Reload
) -> Iterator[SettingDeclaration]:
    for field, annotation in typing.get_type_hints(settings, include_extras=True).items():
        if field not in settings.__struct_fields__:
            continue
        default = getattr(defaults, field)
        if isinstance(annotation, type) and issubclass(annotation, Settings):
            inner = annotation.reload if annotation.reload is not None else reload
            yield from _iterate_declarations(annotation, default, (*path, field), inner)
            continue
        kind, about = (typing.get_args(annotation) or (None, None))[:2]
        if not isinstance(about, Setting):
            raise InternalError(f"{settings.__name__}.{field} has no description")
        if settings.of_process:
            about = msgspec.structs.replace(about, of_process=True)
        kind, optional = _without_none(kind)
        yield SettingDeclaration(
            path=(*path, field),
            name=about.flag or field.replace("_", "-"),
            kind=choice_type(about.choices) if about.choices else get_setting_type(kind),
            default=default,
            setting=about,
            optional=optional,
            reload=about.reload if about.reload is not None else reload,
        )


def build_field_name(name: str) -> str:
    """The field of a configuration file for the setting of this name: `minReplicas` for `min-replicas`."""
    first, *others = name.split("-")
    return first + "".join(word.capitalize() for word in others)


def _with_underscores(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if isinstance(annotation, types.UnionType):
        rest = [member for member in typing.get_args(annotation) if member is not types.NoneType]
        if len(rest) == 1:
            return rest[0], True
    return annotation, False
