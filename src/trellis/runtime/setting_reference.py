"""What is on the page of settings: a table in Markdown, made from the declarations."""

from __future__ import annotations

from trellis.runtime.settings import Declared, Settings, declared


def reference_table(settings: type[Settings], defaults: Settings | None = None) -> str:
    """One row for each setting that has an effect; a component may have defaults of its own for a shared group."""
    rows = ["| flag | value | default | meaning |", "|---|---|---|---|"]
    rows += [_row(each) for each in declared(settings, defaults) if not each.about.obsolete]
    return "\n".join(rows) + "\n"


def _row(each: Declared) -> str:
    unit = f", {each.about.unit}" if each.about.unit else ""
    default = each.show(each.default)
    cells = [
        f"`--{each.name}`",
        each.kind.name + unit + _limits(each),
        f"`{default}`" if default else "none",
        f"{each.about.meaning} {each.about.why}",
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _limits(each: Declared) -> str:
    least, most = each.about.minimum, each.about.maximum
    if least is not None and most is not None:
        return f", {each.kind.show(least)} to {each.kind.show(most)}"
    if least is not None:
        return f", at least {each.kind.show(least)}"
    return f", at most {each.kind.show(most)}" if most is not None else ""
