"""Declarations of settings: each is a typed field of a frozen struct.

    class LoopSettings(Settings, frozen=True):
        interval: Annotated[
            Duration,
            Setting("How often to look.", why="Metrics are a minute old anyway.", flag="recommender-interval"),
        ] = Duration.from_seconds(60)

The flag, the variable, the key in a file, the help of the command line and the reference page all follow from that. A
field whose type is another `Settings` is a group: its settings stand beside the others under their own names, and the
default of the field is the default of them all. A default must therefore exist for every setting.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import msgspec

from trellis.base.errors import InternalError, InvalidInput
from trellis.runtime.settings.values import SettingType, choice_type, setting_type_of

VARIABLE_PREFIX: Final = "TRELLIS_"


class Setting(msgspec.Struct, frozen=True):
    """What a setting means, why its default is what it is, and what it may be.

    `flag` is the name where that of the field, with dashes, will not do. `letter` is a flag of one letter. `variable`
    is a variable of the environment that is read if ours is not set. `minimum` and `maximum` are inside the range.
    `check` says what is wrong with a value, or None. A `secret` is never shown. What is `obsolete` is read and has no
    effect.
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


class SettingConflict(msgspec.Struct, frozen=True):
    """A rule between settings that does not hold: the name of the setting to blame, and the rule."""

    setting: str
    rule: str


class Settings(msgspec.Struct, frozen=True):
    """What every struct of settings derives from."""

    def conflicts(self) -> Iterator[SettingConflict]:
        """The rules between several settings that these values break. Override it where there are any."""
        return iter(())


class SettingDeclaration(msgspec.Struct, frozen=True):
    """A setting as it follows from its declaration; `path` leads to its field through the groups."""

    path: tuple[str, ...]
    name: str
    kind: SettingType
    default: Any
    about: Setting
    optional: bool

    @property
    def variable(self) -> str:
        """Its variable in the environment."""
        return VARIABLE_PREFIX + self.name.upper().replace("-", "_")

    @property
    def parameter(self) -> str:
        """Its name as Python would write it, which is how click hands its flag over."""
        return self.name.replace("-", "_")

    def read(self, value: object) -> Any:
        """The value that was written, or `InvalidInput` with the rule that it breaks."""
        if self.optional and value in ("", None):
            return None
        parsed = self.kind.read(value)
        about = self.about
        if about.minimum is not None and parsed < about.minimum:
            raise InvalidInput(value, f"must be at least {self.kind.show(about.minimum)}")
        if about.maximum is not None and parsed > about.maximum:
            raise InvalidInput(value, f"must be at most {self.kind.show(about.maximum)}")
        wrong = about.check(parsed) if about.check else None
        if wrong:
            raise InvalidInput(value, wrong)
        return parsed

    def show(self, value: Any) -> str:
        """A value as one would write it in a flag; empty if there is none."""
        if value is None:
            return ""
        return "(hidden)" if self.about.secret and value else self.kind.show(value)


@cache
def declared_settings(settings: type[Settings], defaults: Settings | None = None) -> tuple[SettingDeclaration, ...]:
    """Every setting of a struct and of its groups, in the order of declaration."""
    declared = tuple(_declared(settings, defaults or settings(), ()))
    names = [declaration.name for declaration in declared]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InternalError(f"{settings.__name__} declares a setting twice: {', '.join(sorted(twice))}")
    return declared


def _declared(settings: type[Settings], defaults: Settings, path: tuple[str, ...]) -> Iterator[SettingDeclaration]:
    for field, annotation in typing.get_type_hints(settings, include_extras=True).items():
        default = getattr(defaults, field)
        if isinstance(annotation, type) and issubclass(annotation, Settings):
            yield from _declared(annotation, default, (*path, field))
            continue
        kind, about = (typing.get_args(annotation) or (None, None))[:2]
        if not isinstance(about, Setting):
            raise InternalError(f"{settings.__name__}.{field} does not say what it means")
        kind, optional = _without_none(kind)
        yield SettingDeclaration(
            path=(*path, field),
            name=about.flag or field.replace("_", "-"),
            kind=choice_type(about.choices) if about.choices else setting_type_of(kind),
            default=default,
            about=about,
            optional=optional,
        )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if isinstance(annotation, types.UnionType):
        rest = [member for member in typing.get_args(annotation) if member is not types.NoneType]
        if len(rest) == 1:
            return rest[0], True
    return annotation, False
