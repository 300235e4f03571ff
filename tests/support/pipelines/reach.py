"""What code that nobody reviewed can reach by a workflow, from its document alone. Pure.

GitHub runs a branch's own workflow file on the events of that branch, so no condition in a file is a wall: who changes
the file changes the condition. Walls are what is not in the file: that an event always runs main's code, and that an
environment, which alone has secrets, lets in jobs of main alone.
Source: GitHub Docs, "Events that trigger workflows", "Deployments and environments", "Permissions for GITHUB_TOKEN".
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]
"""A workflow, parsed; its key ``on`` is a text."""

_OF_MAIN = {"schedule"}
"""Events that run the default branch's file and code, whoever causes them, and carry nothing that others wrote."""

_BY_HAND = "workflow_dispatch"
"""Runs the file of any branch: for those who may start it, its environment is the wall."""

_PUBLIC = {"contents": "read"}
_HOSTED = re.compile(r"(ubuntu|windows|macos)-[\w.]+")
_SECRET = re.compile(r"\bsecrets\b")
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_ONE_NAME = re.compile(r"\$\{\{ *(matrix|inputs)\.([\w-]+) *\}\}")
_OF_MAIN_ALONE = {None, "main", "refs/heads/main"}


def findings(document: Document, *, main_only: Collection[str]) -> list[str]:
    """What is wrong with each job, in words; empty where unreviewed code reaches no more than everybody may read.

    Args:
        main_only: Environments whose settings let in jobs of main alone.
    """
    events = _events(document)
    unreviewed = sorted(name for name, given in events.items() if _is_unreviewed(name, given))
    findings = []
    for name, job in document["jobs"].items():
        more = list(_more_than_public(document, job))
        if unreviewed:
            findings += [f"{name}, by {', '.join(unreviewed)}: {way}" for way in more]
        if more:
            findings += [f"{name}: {way}" for way in _unwalled(document, job, events, main_only)]
    return findings


def _events(document: Document) -> Mapping[str, Any]:
    given = document["on"]
    if isinstance(given, str):
        return {given: None}
    return given if isinstance(given, Mapping) else dict.fromkeys(given)


def _is_unreviewed(event: str, given: Any) -> bool:  # noqa: ANN401 - as YAML has it
    if event == "push":
        return not isinstance(given, Mapping) or given.get("branches") != ["main"] or "tags" in given
    return event not in {*_OF_MAIN, _BY_HAND}


def _more_than_public(document: Document, job: Mapping[str, Any]) -> Iterator[str]:
    """What a job has that not everybody has."""
    text = json.dumps([document.get("env"), document.get("defaults"), job], default=str)
    expressions = " ".join(_EXPRESSION.findall(text))
    if _SECRET.search(expressions) or job.get("secrets"):
        yield "has secrets"
    if job.get("environment"):
        yield f"has environment {job['environment']}"
    given = job.get("permissions", document.get("permissions"))
    if not isinstance(given, Mapping):
        yield f"has permissions {given or 'of the repository'}"
    elif more := sorted(f"{name}: {right}" for name, right in given.items() if _PUBLIC.get(name, "none") != right):
        yield f"has permissions {', '.join(more)}"
    runner = job.get("runs-on", "")
    if "uses" not in job and not (isinstance(runner, str) and _HOSTED.fullmatch(runner)):
        yield f"runs on {runner}"
    for step in job.get("steps", ()):
        # A cache that main reads as well would carry what this code wrote to jobs that have more.
        if str(step.get("uses", "")).startswith(("actions/cache@", "actions/cache/save@")):
            yield f"writes a cache: {step['uses'].partition('@')[0]}"


def _unwalled(
    document: Document, job: Mapping[str, Any], events: Mapping[str, Any], main_only: Collection[str]
) -> Iterator[str]:
    """What lets code of others into a job that has more than everybody."""
    needs_wall = _BY_HAND in events or _SECRET.search(json.dumps([document.get("env"), job], default=str))
    open_ones = sorted(environments_of(job, events) - set(main_only))
    if needs_wall and open_ones:
        yield f"environment {', '.join(open_ones) or 'none'} is not for main alone"
    for step in job.get("steps", ()):
        action, given = str(step.get("uses", "")), step.get("with", {})
        if action.startswith("actions/checkout@") and (
            given.get("ref") not in _OF_MAIN_ALONE or given.get("repository") is not None
        ):
            yield f"checks out {given.get('repository', '')} {given.get('ref', '')}".rstrip()
        if action.startswith("actions/download-artifact@") and not str(given.get("path", "")).startswith(
            "${{ runner.temp }}/"
        ):
            yield "unpacks an artifact of any run over its checkout"
        if action.startswith(("actions/cache@", "actions/cache/restore@")):
            yield "unpacks a cache"


def environments_of(job: Mapping[str, Any], events: Mapping[str, Any]) -> set[str]:
    """Names of the environments that a job may be in; an expression that is not a list of choices is itself."""
    given = job.get("environment", "")
    name = str(given["name"] if isinstance(given, Mapping) else given)
    match = _ONE_NAME.search(name)
    if match is None:
        return {name or "none"}
    source, key = match.groups()
    choices = (
        job.get("strategy", {}).get("matrix", {}).get(key)
        if source == "matrix"
        else ((events.get(_BY_HAND) or {}).get("inputs", {}).get(key, {}).get("options"))
    )
    return {name.replace(match[0], str(choice)) for choice in choices} if isinstance(choices, list) else {name}
