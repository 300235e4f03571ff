"""Settings of an agent, as its operator reads and edits them."""

from collections.abc import Mapping


def settings_lines(shown: Mapping[str, object], route: Mapping[str, object] | None = None) -> list[str]:
    """Settings in the form in which ``--from`` takes them; the model's provider as a comment."""
    import yaml

    lines = yaml.safe_dump(dict(shown), sort_keys=False, allow_unicode=True).splitlines()
    if route is None:
        return lines
    default = ", the default" if route["is_default"] else ""
    who = f"{route['provider_model']} of {route['provider']}" if route["provider"] else "nobody: the router lacks it"
    if route.get("own_key"):
        return [*lines, f"# the user's own provider answers: {who}; model does not count"]
    return [*lines, f"# {route['model']}{default}, is answered by {who}"]
