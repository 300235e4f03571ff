"""Reads settings.toml and the variables of the process."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import SecretStr, ValidationError

from hermesops.base.files.private_file import refuse_readable_by_others
from hermesops.errors import Hint, UsageError
from hermesops.model.rollout.spec import HOOK_FACTS
from hermesops.model.unknown_name import unknown_name
from hermesops.settings.fields import FIELDS, NAMES, OF_VARIABLE, PREFIX, SECRET_KEYS, SECRET_PREFIX, SECTIONS, Settings

_PLAN_TABLES = {
    "server_types",
    "plan_regions",
    "pool_size",
    "data_gb",
    "billing.prices",
    "model.usd_per_month",
    "model.tokens_per_month",
}


_MOST_BYTES = 32 * 1024


_AT_LINE = re.compile(r"\(at line (\d{1,9}), column \d{1,9}\)$")


_CURLED = "“”„‟‘’‚‛«»"  # noqa: RUF001 - what word processors make of quotes


_QUOTES = f"{_CURLED}\"'"


_SELECTORS = {"HERMESOPS_ENV", "HERMESOPS_HOME"}


def read_file(file: Path) -> dict[str, object]:
    """Read a settings file: values by the names of settings; none where there is no file.

    Raises:
        UsageError: It cannot be read, is no TOML, is too large, or has a key that is no setting.
        RefusedError: It holds a secret and others may read it.
    """
    text = ""
    try:
        with file.open("rb") as opened:
            text = _text_of(opened)
            values = flat(tomllib.loads(text))
            if secret := next((key for key in values if is_secret_value(key, values[key])), ""):
                refuse_readable_by_others(opened.fileno(), file, what=secret)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:  # ValueError: no UTF-8, no TOML, a number of 5,000 digits
        raise UsageError(
            f"cannot read {file}: {error}{_beginning(text, str(error))}", hint=f"repair or remove {file}"
        ) from error
    for key in values:
        _known(key, f"in {file}{_line_of(key, text)}")
    return values


def _beginning(text: str, problem: str) -> str:
    """The beginning of the line at which reading TOML stopped: never a value, which may be a secret."""
    match = _AT_LINE.search(problem)
    line = [*text.splitlines(), ""][int(match[1]) - 1] if match else ""
    key, _, value = line.partition("=")
    if key.strip(f"{_QUOTES} ") not in NAMES:
        return ""
    begin = value.strip()[:1]
    why = ', but text stands between straight quotes, as "nbg1"' if begin in _CURLED or begin.isalpha() else ""
    return f": the line begins with {key}= {begin}…{why}"


def _line_of(key: str, text: str) -> str:
    """Where a settings file sets a key, as ``:7``, which ``tomllib`` does not say; empty where it is spelled rarely."""
    table, _, name = key.rpartition(".")
    within = ""
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            within = stripped.strip("[] ")
        spelled = stripped.partition("=")[0].strip().strip("\"'")
        if (within, spelled) == (table, name) or (not within and spelled == key) or (not table and within == key):
            return f":{number}"
    return ""


def flat(tables: Mapping[str, object]) -> dict[str, object]:
    """Flatten the tables of a settings file into values by the names of settings."""
    flat: dict[str, object] = {}
    for key, value in tables.items():
        if key in SECTIONS and isinstance(value, Mapping):
            flat.update({f"{key}.{name}": inner for name, inner in value.items()})
        else:
            flat[key] = value
    return flat


def _text_of(opened: BinaryIO) -> str:
    """Read a settings file as UTF-8 text; ``ValueError`` when it is not UTF-8, or larger than ``_MOST_BYTES``."""
    data = opened.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES // 1024} KiB")
    return data.decode("utf-8-sig")  # some editors begin each file with a byte order mark


def is_secret_value(key: str, value: object) -> bool:
    """Whether a value of the file is a secret itself; a path of SQLite is none."""
    return key in SECRET_KEYS and not str(value).startswith("sqlite:")


def parse_text(key: str, text: str) -> object:
    """The value of a setting as an operator types it: as in a variable, or TOML for a table or a list.

    Raises:
        UsageError: It begins as TOML does, and is none.
    """
    if text.lstrip()[:1] in {"{", "["}:
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except ValueError as error:
            raise UsageError(
                f"{key} {text!r} is no TOML: {error}", hint='as {light = "starter"} or ["a", "b"]'
            ) from None
    if key in _PLAN_TABLES:
        return _plan_table(text)
    return text


def read_variables(variables: Mapping[str, str]) -> dict[str, object]:
    """Read variables ``HERMESOPS_<NAME>``: values by the names of settings.

    Raises:
        UsageError: A variable names no setting, or one that only a file may set.
    """
    values: dict[str, object] = {}
    for variable, text in variables.items():
        if not variable.startswith(PREFIX) or variable in _SELECTORS or variable.startswith(SECRET_PREFIX):
            continue
        if variable in HOOK_FACTS:  # this process was started by a hook
            continue
        name = variable.removeprefix(PREFIX).lower()
        key = OF_VARIABLE.get(name, name)
        _known(key, f"(variable {variable})")
        if key == "rollout.hooks":
            raise UsageError(
                f"{variable}: commands of rollouts are set in settings.toml only", hint=f"unset {variable}"
            )
        values[key] = _plan_table(text) if key in _PLAN_TABLES else text
    return values


def secrets_in(variables: Mapping[str, str]) -> dict[str, SecretStr]:
    """The values of variables ``HERMESOPS_SECRET_<NAME>`` that are not empty, by name as the variable spells it."""
    return {
        variable.removeprefix(SECRET_PREFIX): SecretStr(text)
        for variable, text in variables.items()
        if variable.startswith(SECRET_PREFIX) and text
    }


def _plan_table(text: str) -> dict[str, str]:
    """Parse ``light=starter,heavy=basic`` into a table; malformed entries are left to validation."""
    parts = [part for part in text.split(",") if part.strip()]
    return {key.strip(): value.strip() for key, _, value in (part.partition("=") for part in parts)}


def _known(key: str, where: str) -> None:
    if key in FIELDS:
        return
    raise unknown_name("setting", key, FIELDS, where=f" {where}")


def _nested(values: Mapping[str, object]) -> dict[str, object]:
    nested: dict[str, Any] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        if section:
            nested.setdefault(section, {})[name] = value
        else:
            nested[key] = value
    return nested


def validated(values: Mapping[str, object], sources: Mapping[str, str]) -> Settings:
    """Validate values by the names of settings.

    Args:
        sources: Where each value came from, for the error.

    Raises:
        UsageError: A value is out of its bounds, or approvals are required of operators who prove nothing.
    """
    try:
        settings = Settings.model_validate(_nested(values))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"][: 2 if first["loc"][0] in SECTIONS else 1])
        raise UsageError(
            f"settings key {key!r} (from {sources.get(key, 'default')}): {first['msg']}",
            hint=Hint(
                f"{key}: {FIELDS[key].description}." if key in FIELDS else "",
                ("settings", "show"),
                "lists keys and defaults",
            ),
        ) from None
    if settings.approvals == "required" and settings.operators != "verified":
        raise UsageError(
            f"settings key 'approvals' (from {sources.get('approvals', 'default')}): approvals need verified operators",
            hint='set operators = "verified" beside approvals = "required"',
        )
    return settings
