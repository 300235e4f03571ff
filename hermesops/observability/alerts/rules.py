"""Files of Prometheus's rules: reads alerts, checks the files and scales them for deployment.

A file is plain Prometheus, which ``promtool check rules`` reads as it is, with two agreements: ``runbook_url`` is
``runbooks/NAME.md`` and gets its base when it is deployed, and so do all times their scale.

Source: prometheus.io/docs/prometheus/2.42/configuration, recording_rules and alerting_rules; durations and strings of
PromQL in querying/basics.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from hermesops.observability.alerts import yaml_lines
from hermesops.observability.alerts.problem import Problem
from hermesops.observability.alerts.yaml_lines import Located

SEVERITIES = frozenset({"page", "ticket", "none"})
SCOPES = frozenset({"instance", "cell", "fleet"})

_LABELS = ("severity", "owner", "scope")
_ANNOTATIONS = ("summary", "figure", "runbook_url")
_GROUP_KEYS = frozenset({"name", "interval", "limit", "rules"})
_RULE_KEYS = frozenset({"alert", "record", "expr", "for", "keep_firing_for", "labels", "annotations"})
_RUNBOOK = re.compile(r"runbooks/([a-z0-9]+(?:-[a-z0-9]+)*)\.md")
_ALERT = re.compile(r"[A-Z][A-Za-z0-9]*")

_LONGEST_SHORTENED = "15m"
"""What no alert waits longer than, before it is scaled, where times are shortened: of a day a fifth is hours."""

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000, "y": 31_536_000_000}
_LENGTH = r"(?:\d+(?:ms|[smhdwy]))+"
_DURATION = re.compile(_LENGTH)
_IN_QUERY = re.compile(
    rf"""(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<open>\[)(?P<range>{_LENGTH})(?::(?P<step>{_LENGTH})?(?P<colon>))?\]
    |(?P<offset>\boffset\s+-?)(?P<by>{_LENGTH})""",
    re.VERBOSE,
)
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_RECORD = re.compile(r"\bhermesops:[a-z0-9_:]+")
_CONSTANT = re.compile(r"vector\((\d+(?:\.\d+)?)\)")


@dataclass(frozen=True)
class AlertRule:
    """One alerting rule.

    Attributes:
        line: Of the file, from 1.
        labels: That the rule gives; those of its series come on top.
        runbook: Name of the runbook, without folder and ``.md``.
    """

    name: str
    file: str
    line: int
    expression: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    runbook: str

    @property
    def severity(self) -> str:
        """``page`` wakes somebody, ``ticket`` waits for the morning, ``none`` is for programs."""
        return self.labels.get("severity", "")


def alert_rules(text: str, file: str) -> tuple[AlertRule, ...]:
    """Alerts of a file without problems, in file order; skips recording rules."""
    read = yaml_lines.read(text, file)
    if isinstance(read, Problem):
        return ()
    return tuple(_alert(rule, file) for _, rule in _rules(read) if rule.get("alert"))


def records(text: str) -> set[str]:
    """Names of the series that a file records; none where it is no file of rules."""
    read = yaml_lines.read(text, "")
    return set() if isinstance(read, Problem) else {_text(rule, "record") for _, rule in _rules(read)} - {""}


def line_of(text: str, group: str, number: int) -> int:
    """The line of a group's rule, which is counted from 1; 0 where there is none."""
    read = yaml_lines.read(text, "")
    lines = (
        [] if isinstance(read, Problem) else [rule.line for part, rule in _rules(read) if _text(part, "name") == group]
    )
    return lines[number - 1] if 0 < number <= len(lines) else 0


def unknown_records(query: str, known: Collection[str]) -> list[str]:
    """Series of ours that a query names and no rule records: it would find nothing, and say nothing of it."""
    return sorted({name for name in _RECORD.findall(_STRING.sub("", query)) if name not in known})


def problems(
    text: str, file: str, runbooks: Collection[str] | None = None, known: Collection[str] | None = None
) -> list[Problem]:
    """Check a file of rules for problems, PromQL aside.

    Args:
        runbooks: Names of those that there are; ``None`` does not ask whether a runbook exists.
        known: Series that rules record, of this file and of others; ``None`` does not ask.
    """
    read = yaml_lines.read(text, file)
    if isinstance(read, Problem):
        return [read]
    if not (groups := read.get("groups")) or not groups.parts():
        return [Problem(file, read.line, "missing list “groups:” at the beginning of the rules")]
    reported = list(_of_groups(groups, file))
    lines = dict[tuple[str, ...], int]()
    for _, rule in _rules(read):
        reported += _of_rule(rule, file, runbooks)
        if known is not None:
            unknown = unknown_records(_text(rule, "expr"), known)
            reported += [Problem(file, rule.line, f"no rule records {name}") for name in unknown]
        if rule.get("alert"):
            alert = _alert(rule, file)
            key = (alert.name, alert.labels.get("scope", ""), alert.severity)
            if key in lines:
                reported.append(Problem(file, rule.line, f"{' '.join(key)} is there twice: line {lines[key]} as well"))
            lines.setdefault(key, rule.line)
    return sorted(reported)


def deployed(text: str, *, scale: float, runbooks_url: str) -> str:
    """A file of rules as a server gets it.

    Args:
        scale: What all waiting times are multiplied by; 1 leaves them alone. Below 1 ``for`` is at most 15 minutes
            before that, so that an alert that waits for a day can be tried.
        runbooks_url: Base of the runbooks' addresses; empty leaves them as they are.
    """
    document: dict[str, Any] = yaml.safe_load(text)
    for group in document["groups"]:
        _scale_keys(group, ("interval",), scale)
        for rule in group["rules"]:
            if scale < 1 and _milliseconds(str(rule.get("for", "0s"))) > _milliseconds(_LONGEST_SHORTENED):
                rule["for"] = _LONGEST_SHORTENED
            _scale_keys(rule, ("for", "keep_firing_for"), scale)
            rule["expr"] = scaled_query(str(rule["expr"]), scale)
            if str(rule.get("record", "")).endswith("_timeout:seconds"):
                rule["expr"] = _CONSTANT.sub(lambda number: f"vector({float(number[1]) * scale:g})", rule["expr"])
            if runbooks_url and (runbook := _RUNBOOK.fullmatch(rule.get("annotations", {}).get("runbook_url", ""))):
                rule["annotations"]["runbook_url"] = f"{runbooks_url.rstrip('/')}/{runbook[1]}.md"
    dumped: str = yaml.safe_dump(document, sort_keys=False, width=10_000, allow_unicode=True)
    return dumped


def scaled_query(query: str, scale: float) -> str:
    """PromQL with every range, step and offset multiplied; durations inside strings stay."""

    def replaced(match: re.Match[str]) -> str:
        if match["string"] is not None:
            return match[0]
        if match["by"]:
            return f"{match['offset']}{scaled(match['by'], scale)}"
        step = scaled(match["step"], scale) if match["step"] else ""
        return f"[{scaled(match['range'], scale)}{':' + step if match['colon'] is not None else ''}]"

    return _IN_QUERY.sub(replaced, query)


def scaled(duration: str, scale: float) -> str:
    """A duration of Prometheus, multiplied; a millisecond at least, unless it is none."""
    total = _milliseconds(duration)
    if scale == 1 or not total:
        return duration
    milliseconds = max(1, round(total * scale))
    return f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"


def _milliseconds(duration: str) -> int:
    return sum(int(number) * _UNITS_MS[unit] for number, unit in re.findall(r"(\d+)(ms|[smhdwy])", duration))


def _scale_keys(part: dict[str, Any], keys: Collection[str], scale: float) -> None:
    for key in keys:
        if key in part:
            part[key] = scaled(str(part[key]), scale)


def _rules(read: Located) -> Iterator[tuple[Located, Located]]:
    groups = read.get("groups")
    for group in groups.parts() if groups else ():
        rules = group.get("rules")
        for rule in rules.parts() if rules else ():
            yield group, rule


def _alert(rule: Located, file: str) -> AlertRule:
    annotations = _texts(rule.get("annotations"))
    runbook = _RUNBOOK.fullmatch(annotations.get("runbook_url", ""))
    return AlertRule(
        name=_text(rule, "alert"),
        file=file,
        line=rule.line,
        expression=_text(rule, "expr"),
        labels=_texts(rule.get("labels")),
        annotations=annotations,
        runbook=runbook[1] if runbook else "",
    )


def _of_groups(groups: Located, file: str) -> Iterator[Problem]:
    names = set[str]()
    for group in groups.parts():
        name = _text(group, "name")
        if not name:
            yield Problem(file, group.line, "a group needs a name")
        if name in names:
            yield Problem(file, group.line, f"another group is named {name}")
        names.add(name)
        if not (rules := group.get("rules")) or not rules.parts():
            yield Problem(file, group.line, f"group {name} has no list “rules:”")
        yield from _of_keys(group, file, _GROUP_KEYS)
        yield from _of_durations(group, file, ("interval",))


def _of_rule(rule: Located, file: str, runbooks: Collection[str] | None) -> Iterator[Problem]:
    yield from _of_keys(rule, file, _RULE_KEYS)
    yield from _of_durations(rule, file, ("for", "keep_firing_for"))
    if not _text(rule, "expr").strip():
        yield Problem(file, rule.line, "a rule needs “expr:”")
    name = _text(rule, "alert")
    if bool(name) == bool(_text(rule, "record")):
        yield Problem(file, rule.line, "a rule has either “alert:” or “record:”")
        return
    if name:
        yield from _of_alert(rule, file, runbooks)


def _of_alert(rule: Located, file: str, runbooks: Collection[str] | None) -> Iterator[Problem]:
    alert = _alert(rule, file)
    if not _ALERT.fullmatch(alert.name):
        yield Problem(file, rule.line, f"“{alert.name}” is no name of an alert, as GatewayDown is one")
    for key in _LABELS:
        if not alert.labels.get(key):
            yield Problem(file, rule.line, f"{alert.name} lacks label {key}")
    for key, allowed in (("severity", SEVERITIES), ("scope", SCOPES)):
        if alert.labels.get(key) and alert.labels[key] not in allowed:
            yield Problem(file, rule.line, f"{alert.name}: {key} is one of {', '.join(sorted(allowed))}")
    for key in _ANNOTATIONS:
        if not alert.annotations.get(key, "").strip():
            yield Problem(file, rule.line, f"{alert.name} lacks annotation {key}")
    if alert.annotations.get("runbook_url") and not alert.runbook:
        yield Problem(file, rule.line, f"{alert.name}: runbook_url is runbooks/NAME.md; the base of it comes later")
    if alert.runbook and runbooks is not None and alert.runbook not in runbooks:
        yield Problem(file, rule.line, f"{alert.name}: there is no runbook runbooks/{alert.runbook}.md")


def _of_keys(part: Located, file: str, known: Collection[str]) -> Iterator[Problem]:
    for key, value in part.items():
        if key not in known:
            yield Problem(file, value.line, f"“{key}” is none of {', '.join(sorted(known))}")


def _of_durations(part: Located, file: str, keys: Collection[str]) -> Iterator[Problem]:
    for key in keys:
        value = part.get(key)
        if value and not _DURATION.fullmatch(value.text):
            yield Problem(file, value.line, f"{key}: “{value.text}” is no duration, as 90s or 1h30m")


def _text(part: Located, key: str) -> str:
    value = part.get(key)
    return value.text if value else ""


def _texts(part: Located | None) -> dict[str, str]:
    return {key: value.text for key, value in part.items()} if part else {}
