"""Variables of roles: plain JSON for Ansible, in which no text is a template; and the secrets in them."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

_PASSWORD = re.compile(r"(://[^\s:/@]*):[^\s/@]+@")
"""The password in a URL."""

_SHORTEST = 8
"""Characters of a line that is a secret by itself; a shorter one would hide words of a log."""

_TEMPLATES = ("{{", "{%", "{#")


def literal(value: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """A value with mappings, tuples, enums and paths as JSON knows them; Ansible evaluates none of its texts.

    A command of an operator may hold ``{{…}}``, as Docker's formats do, and a text of a machine may hold anything.
    """
    if isinstance(value, Mapping):
        return {str(key): literal(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [literal(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    # Ansible's own mark in JSON of a text that is no template.
    return {"__ansible_unsafe": text} if any(mark in text for mark in _TEMPLATES) else text


def secret_lines(variables: Mapping[str, object], roles: Path) -> frozenset[str]:
    """Every line of those variables that their roles declare as secret (``no_log``).

    Args:
        roles: Folder of the roles, with their ``meta/argument_specs.yml``.
    """
    specs = (yaml.safe_load(file.read_text()) for file in roles.glob("*/meta/argument_specs.yml"))
    options = (option for spec in specs for option in spec["argument_specs"]["main"].get("options", {}).items())
    secret = {name for name, option in options if option.get("no_log")}
    return frozenset(_lines([value for name, value in variables.items() if name in secret]))


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _lines(item)
    elif value is not None:
        yield from (line for line in map(str.strip, str(value).splitlines()) if len(line) >= _SHORTEST)


def without(text: str, secrets: Collection[str]) -> str:
    """A line of a log with secrets, and passwords in URLs, hidden."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return _PASSWORD.sub(r"\1:***@", text)
