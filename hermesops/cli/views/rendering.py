"""Text of results for people: instances, settings, fields and counts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermesops.cli.console import advice
from hermesops.cli.printing.rows import for_people
from hermesops.errors import Hint
from hermesops.views import shapes

if TYPE_CHECKING:
    from hermesops.model.fleet.instance import Instance


def instance_line(row: "Instance") -> dict[str, object]:
    """The table row of an instance; its status is ``ending`` while a termination is scheduled."""
    return {**shapes.instance(row), **({"status": "ending"} if shapes.is_ending(row) else {})}


def suspension_line(shown: Mapping[str, object]) -> dict[str, object]:
    """The fields of a suspension, with the command that ends it as text."""
    undo = shown.get("undo")
    return {**shown, "undo": advice(undo)} if isinstance(undo, Hint) else dict(shown)


def settings_lines(shown: Mapping[str, object], route: Mapping[str, object] | None = None) -> list[str]:
    """Settings in the form in which ``--from`` takes them; the model's provider as a comment."""
    import yaml

    lines = yaml.safe_dump(dict(shown), sort_keys=False, allow_unicode=True).splitlines()
    if route is None:
        return lines
    default = ", the default" if route["is_default"] else ""
    who = f"{route['provider_model']} of {route['provider']}" if route["provider"] else "nobody: the router lacks it"
    return [*lines, f"# {route['model']}{default}, is answered by {who}"]


def fields(data: Mapping[str, object]) -> list[str]:
    """One line a field, for ``show`` commands."""
    width = max((len(key) for key in data), default=0)
    shown = {key: "; ".join(map(str, value)) if isinstance(value, list) else value for key, value in data.items()}
    return [f"{key.replace('_', ' '):<{width}}  {_for_people(value)}" for key, value in shown.items()]


def _for_people(value: object) -> object:
    if value in (None, ""):
        return "-"
    return ("no", "yes")[value] if isinstance(value, bool) else for_people(str(value))
