"""Parses an operator's changes of an instance's settings. Pure; hermes-node's own parser says which are valid.

A patch is a function of the settings that are there, so it is applied to the latest ones, under the lease.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import yaml

from hermesops.errors import Hint, UsageError
from hermesops.model.access.masking import MASK, has_mask
from hermesops.model.billing.route import ROUTES
from hermesops.model.fleet.instance import InstanceSettings
from hermesops.wire.errors import BadRequestError
from hermesops.wire.settings import Settings
from hermesops.wire.strict_json import DEEPEST

SettingsPatch = Callable[[InstanceSettings], InstanceSettings]

_MOST_BYTES = 64 * 1024
"""PyYAML reads some 100 KiB a second; a personality or a list of servers is a few KiB."""

_SETTABLE = ("model", "personality", "disabled_tools")


def replacing(text: str, *, where: str) -> SettingsPatch:
    """The patch to exactly the settings of a YAML or JSON text; what it leaves out becomes the default.

    The user's own model provider stays: it is changed by a request of its own, which asks the provider first.

    Args:
        text: What the operator wrote; may hold secrets.

    Raises:
        UsageError: It is not settings; the message names the place and never repeats a value.
    """
    if len(text.encode()) > _MOST_BYTES:
        raise UsageError(f"{where}: larger than {_MOST_BYTES // 1024} KiB")
    settings = _parse(_load(text, where), where)
    return lambda before: replace(settings, provider=before.provider)


def setting(assignments: Sequence[str]) -> SettingsPatch:
    """The patch that sets some fields and leaves the rest.

    Args:
        assignments: ``model=…``, ``personality=…`` or ``disabled_tools=one,other``; an empty value means the default.

    Raises:
        UsageError: Another field, or a value that it cannot have.
    """
    raw: dict[str, object] = {}
    for assignment in assignments:
        name, is_given, value = assignment.partition("=")
        if name not in _SETTABLE or not is_given:
            raise UsageError(
                f"{name}: only {', '.join(f'{settable}=…' for settable in _SETTABLE)} can be set alone",
                hint=Hint(("instance", "settings", "USER", "--from", "FILE"), "replaces all of them"),
            )
        raw[name] = [tool.strip() for tool in value.split(",") if tool.strip()] if name == "disabled_tools" else value
    parsed = _parse(raw, "assignment")
    return lambda settings: replace(settings, **{name: getattr(parsed, name) for name in raw})


def settings_of(parsed: Settings) -> InstanceSettings:
    """Parsed settings as they are stored, with the platform's router."""
    values = asdict(parsed)
    del values["endpoint"]
    return InstanceSettings(**values)


class _Shallow(yaml.SafeLoader):
    """Refuses deep nesting: for each bracket the scanner visits all open ones; 4,000 of them take minutes."""

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        if self.flow_level >= DEEPEST:
            raise yaml.YAMLError(f"nested deeper than {DEEPEST}")
        super().fetch_flow_collection_start(token)


def _load(text: str, where: str) -> object:
    try:
        # Through JSON: what YAML can say and a payload cannot (dates, sets) has to be refused here.
        loaded = yaml.load(text, Loader=_Shallow)  # noqa: S506 - it is a SafeLoader
        return {} if loaded is None else json.loads(json.dumps(loaded, allow_nan=False))
    except yaml.MarkedYAMLError as error:
        # Its own words would quote the line, and with it a secret.
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UsageError(f"{where}{place}: neither YAML nor JSON") from None
    except (yaml.YAMLError, TypeError, ValueError, RecursionError):
        raise UsageError(f"{where}: settings cannot hold this value, for example a date without quotes") from None


def _parse(raw: object, where: str) -> InstanceSettings:
    if isinstance(raw, dict) and raw.keys() & {"provider", "endpoint"}:
        hint = Hint(
            ("instance", "model-provider", "USER", "--provider", "ID", "--model", "MODEL", "--key-from", "FILE")
        )
        raise UsageError(f"{where}: a model provider is not changed here, as its key is verified first", hint=hint)
    try:
        parsed = Settings.parse(raw)
    except BadRequestError as error:
        raise UsageError(f"{where}: {error}") from None
    offered = [route.name for route in ROUTES]
    if parsed.model and parsed.model not in offered:
        raise UsageError(f"{where}: settings.model: no route {parsed.model!r}; there are {', '.join(offered)}")
    settings = settings_of(parsed)
    if has_mask(settings):
        raise UsageError(f"{where}: holds {MASK} in place of a secret; write the value itself")
    return settings
