"""Fields of one thing, one line a field."""

from collections.abc import Mapping

from hermesops.cli.printing.rows import for_people


def field_lines(data: Mapping[str, object]) -> list[str]:
    """One line a field, for ``show`` commands; the entries of a mapping stand below its name."""
    width = max((len(key) for key in data), default=0)
    lines = list[str]()
    for key, value in data.items():
        title = key.replace("_", " ")
        if isinstance(value, Mapping) and value:
            lines += [title, *(f"  {name}  {in_words(entry)}" for name, entry in value.items())]
        else:
            lines.append(f"{title:<{width}}  {in_words(value)}")
    return lines


def in_words(value: object) -> str:
    """A value of a field for people; one without content is a dash."""
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return "; ".join(map(in_words, value)) or "-"
        case Mapping():
            return ", ".join(f"{name} {in_words(entry)}" for name, entry in value.items()) or "-"
    return for_people(str(value))
