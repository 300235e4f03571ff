"""Checks monitoring files before they are applied; reports problems with file and line.

What only Prometheus and Alertmanager know is asked of ``promtool`` and ``amtool``, where they are installed. Source:
promtool and amtool of Prometheus 2.42 and Alertmanager 0.25, ``check rules`` and ``check-config``.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import yaml

from hermesops.base import child_environment
from hermesops.errors import UsageError
from hermesops.observability.alerts import dashboards, routing, rules
from hermesops.observability.alerts.problem import Problem
from hermesops.observability.runbook.document import names, parse

_TOOL_S = 60
_AT_LINE = re.compile(r"(?:.+?: (?=\d+:\d+: )|.*yaml: line |\s*line )(?P<line>\d+)(?::\d+)?: (?P<message>.+)$")
_OF_RULE = re.compile(r'group "(?P<group>[^"]*)", rule (?P<number>\d+), (?P<message>.+)$')
_OF_QUERY = re.compile(r'rule \d+, "query_(?P<number>\d+)": (?P<message>.+)')
_PROGRAMS = ("promtool", "amtool")


@dataclass(frozen=True)
class Checked:
    """The result of a check.

    Attributes:
        missing: Programs that are not installed, so that their part was not checked.
    """

    files: tuple[Path, ...]
    problems: tuple[Problem, ...]
    missing: tuple[str, ...]


def shipped(role: Path, runbooks: Path) -> list[Path]:
    """Files of the role ``hermes_platform_monitoring``, and the runbooks."""
    return [
        *sorted(role.glob("files/rules/*.yml")),
        *sorted(role.glob("templates/alertmanager.yml.j2")),
        *sorted(role.glob("files/dashboards/*.json")),
        *sorted(runbooks.glob("*.md")),
    ]


def check(files: Sequence[Path], roles: Path, runbooks: Path) -> Checked:
    """Check files of monitoring against the rules and runbooks that hermesops ships.

    Args:
        files: Those of the role ``hermes_platform_monitoring`` and the runbooks where there are none.
        roles: The folder of roles.
        runbooks: The folder of runbooks.

    Raises:
        UsageError: As ``Checker.check``.
    """
    ours = shipped(roles / "hermes_platform_monitoring", runbooks)
    known = {name for path in ours if path.suffix == ".yml" for name in rules.records(path.read_text(encoding="utf-8"))}
    return Checker(names(runbooks), _runbook_problem).check(files or ours, known)


def _runbook_problem(path: Path) -> str:
    try:
        parse(path.stem, path.read_text(encoding="utf-8"), str(path))
    except UsageError as wrong:
        return wrong.message
    return ""


class Checker:
    """Checks files against each other and against the runbooks that there are.

    Args:
        runbook_problem: What is wrong with a runbook, in words that begin with file and line; empty if nothing is.
        programs: Where ``promtool`` and ``amtool`` are; those that are not named are looked for.
    """

    def __init__(
        self,
        runbooks: Collection[str],
        runbook_problem: Callable[[Path], str],
        programs: Mapping[str, Path] | None = None,
    ) -> None:
        self._runbooks = runbooks
        self._runbook_problem = runbook_problem
        self._programs = installed() if programs is None else programs

    def check(self, files: Sequence[Path], records: Iterable[str] = ()) -> Checked:
        """Check rules, routes, dashboards and runbooks.

        Args:
            records: Series that rules record which are not among the files.

        Raises:
            UsageError: One cannot be read, or is of no kind that is known.
        """
        texts = {path: _read(path) for path in files}
        known = {*records, *(name for path, text in texts.items() if _is_yaml(path) for name in rules.records(text))}
        reported = list[Problem]()
        for path, text in texts.items():
            if path.suffix == ".json":
                reported += self._dashboard(text, path, known)
            elif path.suffix == ".md":
                reported += _said(self._runbook_problem(path), path)
            elif path.suffix == ".j2" or "route" in _top(text):
                reported += self._routing(text, path)
            elif _is_yaml(path):
                reported += self._rules(text, path, known)
            else:
                raise UsageError(f"{path} is neither YAML, a dashboard in JSON, nor a runbook")
        missing = tuple(name for name in _PROGRAMS if name not in self._programs)
        return Checked(tuple(files), tuple(dict.fromkeys(sorted(reported))), missing)

    def _rules(self, text: str, path: Path, records: Collection[str]) -> list[Problem]:
        reported = rules.problems(text, str(path), self._runbooks, records)
        if promtool := self._programs.get("promtool"):
            for line in _failures(_run([promtool, "check", "rules", path])):
                if at := _AT_LINE.match(line):
                    reported.append(Problem(str(path), int(at["line"]), at["message"]))
                elif of := _OF_RULE.search(line):
                    number = rules.line_of(text, of["group"], int(of["number"]))
                    reported.append(Problem(str(path), number, of["message"]))
                else:
                    reported.append(Problem(str(path), 0, line.strip()))
        return reported

    def _dashboard(self, text: str, path: Path, records: Collection[str]) -> list[Problem]:
        read = dashboards.read(text, str(path))
        if isinstance(read, Problem):
            return [read]
        reported = dashboards.problems(read, records)
        if not reported and (promtool := self._programs.get("promtool")):
            reported = _of_queries(read, promtool)
        return reported

    def _routing(self, text: str, path: Path) -> list[Problem]:
        if path.suffix != ".j2":
            return self._configuration(text, path, path)
        reported = list[Problem]()
        for variables in (routing.WITHOUT_RECEIVERS, routing.WITH_RECEIVERS):
            try:
                configuration = routing.rendered(text, variables)
            except jinja2.TemplateError as cause:
                return [Problem(str(path), getattr(cause, "lineno", None) or 0, f"the template fails: {cause}")]
            with tempfile.TemporaryDirectory(prefix="hermesops-alerts-") as folder:
                rendered = Path(folder) / "alertmanager.yml"
                rendered.write_text(configuration, encoding="utf-8")
                # Lines of what is made are not those of the template: the message alone is right.
                reported += [
                    Problem(str(path), 0, problem.message)
                    for problem in self._configuration(configuration, rendered, path)
                ]
        return reported

    def _configuration(self, text: str, path: Path, named: Path) -> list[Problem]:
        reported = routing.problems(text, str(named))
        if reported or not (amtool := self._programs.get("amtool")):
            return reported
        return [
            Problem(str(named), int(at["line"]), at["message"])
            if (at := _AT_LINE.match(line))
            else Problem(str(named), 0, line.strip())
            for line in _failures(_run([amtool, "check-config", path]))
        ]


def installed() -> dict[str, Path]:
    """Paths of promtool and amtool by name, as far as they are installed."""
    path = child_environment.made().get("PATH", "")
    return {name: Path(file) for name in _PROGRAMS if (file := shutil.which(name, path=path))}


def _failures(printed: str) -> list[str]:
    """Error lines in the output of promtool or amtool, without headings and totals."""
    failures = list[str]()
    for line in printed.splitlines():
        message = line.partition("FAILED:")[2] if "FAILED:" in line else line
        is_head = message.startswith(("Checking ", "amtool: error")) or message.endswith("unmarshal errors:")
        if message.strip() and not is_head:
            failures.append(message)
    return failures


def _of_queries(dashboard: dashboards.Dashboard, promtool: Path) -> list[Problem]:
    """Ask promtool about each query, as a rule of its own: it checks no query alone."""
    queries = dashboard.queries()
    document = {
        "groups": [
            {
                "name": "queries",
                "rules": [
                    {"record": f"query_{number}", "expr": dashboards.filled(query.expression)}
                    for number, query in enumerate(queries)
                ],
            }
        ]
    }
    with tempfile.TemporaryDirectory(prefix="hermesops-alerts-") as folder:
        path = Path(folder) / "queries.yml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        printed = _run([promtool, "check", "rules", path])
    return [
        Problem(dashboard.file, queries[int(match["number"])].line, match["message"])
        for match in _OF_QUERY.finditer(printed)
    ]


def _run(command: Sequence[Path | str]) -> str:
    """Run a checking tool and return the output of a failed check; empty on success."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TOOL_S,
            env=child_environment.made(),
        )
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise UsageError(f"{command[0]} cannot be run: {cause}") from cause
    return done.stdout + done.stderr if done.returncode else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise UsageError(f"{path} cannot be read: {cause}") from cause


def _is_yaml(path: Path) -> bool:
    return path.suffix in {".yml", ".yaml"}


def _top(text: str) -> set[str]:
    """Keys at the beginning of lines."""
    return {line.split(":", 1)[0] for line in text.splitlines() if line[:1].isalpha()}


def _said(problem: str, path: Path) -> list[Problem]:
    if not problem:
        return []
    where = re.match(rf"{re.escape(str(path))}:(\d+): ", problem)
    return [Problem(str(path), int(where[1]) if where else 0, problem[where.end() :] if where else problem)]
