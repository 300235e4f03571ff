"""The files that a role puts on a machine, as they are with its own defaults, without Ansible and without a machine."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import jinja2
import yaml

from hermesops.base import assets


def defaults_of(role: str) -> dict[str, Any]:
    """A role's variables when nobody sets any."""
    folder = assets.folder("roles") / role
    paths = (folder / "defaults/main.yml", folder / "vars/main.yml")
    return {name: value for path in paths for name, value in yaml.safe_load(path.read_text()).items()}


def rendered(role: str, template: str, given: Mapping[str, Any] | None = None) -> str:
    """One of its templates; a variable that is neither given nor a default of the role's own is an error."""
    folder = assets.folder("roles") / role / "templates"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,  # as Ansible does
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - unit files, not web pages
    )
    # Of Ansible's own filters and tests those that templates rendered here use.
    environment.filters["to_json"] = json.dumps
    environment.filters["regex_replace"] = lambda text, pattern, new: re.sub(pattern, new, str(text))
    environment.tests["search"] = lambda text, pattern: re.search(pattern, text) is not None
    variables = {**defaults_of(role), **(given or {})}
    for name, value in variables.items():  # as Ansible does where a variable is used
        if isinstance(value, str) and "{{" in value:
            with suppress(jinja2.TemplateError):  # of what only a machine knows; the template says so where it needs it
                variables[name] = environment.from_string(value).render(variables)
    return environment.get_template(template).render(variables)


def verbatim(role: str, name: str) -> str:
    """One of the files that it copies as they are."""
    return (assets.folder("roles") / role / "files" / name).read_text()
