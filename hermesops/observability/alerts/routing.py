"""Alertmanager's configuration as the role makes it, for checks before it is applied.

Source: prometheus.io/docs/alerting/0.25/configuration.
"""

import json
from collections.abc import Mapping

import jinja2

from hermesops.observability.alerts import yaml_lines
from hermesops.observability.alerts.problem import Problem

_ROLE = "hermes_platform_monitoring"
_RECEIVERS = ("web_hook_url", "slack_url", "slack_channel", "pagerduty_key", "watchdog_url")

WITHOUT_RECEIVERS: Mapping[str, object] = {
    f"__{_ROLE}_settings": "/etc/hermes-platform",
    f"{_ROLE}_environment": "production",
    f"{_ROLE}_time_scale": 1.0,
    **{f"{_ROLE}_{name}": "" for name in _RECEIVERS},
}
"""The role's variables where nobody is told of anything."""

WITH_RECEIVERS: Mapping[str, object] = {
    **WITHOUT_RECEIVERS,
    **{f"{_ROLE}_{name}": "https://receiver.example/hook" for name in _RECEIVERS},
    f"{_ROLE}_slack_channel": "#alerts",
}
"""Where everybody is."""


def rendered(template: str, variables: Mapping[str, object]) -> str:
    """A template of the role, filled in as Ansible does it.

    Raises:
        jinja2.TemplateError: It is no template, or names a variable that there is not.
    """
    # S701: YAML, not HTML.
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)  # noqa: S701
    environment.filters["to_json"] = json.dumps
    return environment.from_string(template).render(variables)


def problems(text: str, file: str) -> list[Problem]:
    """Check an Alertmanager configuration for routes without receivers and receivers without routes."""
    read = yaml_lines.read(text, file)
    if isinstance(read, Problem):
        return [read]
    if not (route := read.get("route")):
        return [Problem(file, read.line, "missing “route:” of the Alertmanager configuration")]
    receivers = read.get("receivers")
    named = {
        name.text: receiver.line
        for receiver in (receivers.parts() if receivers else ())
        if (name := receiver.get("name"))
    }
    used = dict[str, int]()
    waiting = [route]
    while waiting:
        part = waiting.pop()
        if receiver := part.get("receiver"):
            used.setdefault(receiver.text, receiver.line)
        children = part.get("routes")
        waiting += children.parts() if children else ()
    return [
        *(Problem(file, line, f"no receiver is named {name}") for name, line in used.items() if name not in named),
        *(
            Problem(file, line, f"no route leads to receiver {name}")
            for name, line in named.items()
            if name not in used
        ),
    ]
