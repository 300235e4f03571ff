"""Fields of one thing, one line a field."""

from collections.abc import Mapping

from hermesops.cli.printing.rows import for_people


def field_lines(data: Mapping[str, object]) -> list[str]:
    """One line a field, for ``show`` commands."""
    width = max((len(key) for key in data), default=0)
    shown = {key: "; ".join(map(str, value)) if isinstance(value, list) else value for key, value in data.items()}
    return [f"{key.replace('_', ' '):<{width}}  {_for_people(value)}" for key, value in shown.items()]


def _for_people(value: object) -> object:
    if value in (None, ""):
        return "-"
    return ("no", "yes")[value] if isinstance(value, bool) else for_people(str(value))
