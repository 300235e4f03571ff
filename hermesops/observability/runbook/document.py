"""Reads runbooks: documents with the headings of ``runbooks/TEMPLATE.md``, in which tagged command blocks are steps.

A tag is an HTML comment right before a ``console`` block of one command. Its first line names the step and says what
it does to the fleet; further lines say when it is needed and what its output has to show::

    <!-- step restore: change
    if: drift shows machine-restorable USER
    expect: the agent of USER is on …
    undo: an older backup is restored the same way
    -->

``VALUES`` stand for what the run is about, ``…`` for any text within a line. A line ``Alerts: OfOne, OfAnother.`` below
the title names the alerts that lead to a runbook.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import takewhile
from pathlib import Path

from hermesops.errors import PLACEHOLDER, Hint, UsageError, fill
from hermesops.model.unknown_name import unknown_name
from hermesops.observability.runbook.diagnosis import Case, cases_of
from hermesops.observability.runbook.reading import is_reading
from hermesops.wire.foreign_text import quoted

VALUES = {
    "USER": "the user of the instance",
    "INSTANCE": "the id of that instance",
    "PLAN": "its plan",
    "CELL": "its cell",
    "OPERATION": "its oldest unfinished operation",
    "ROLLOUT": "the newest unfinished rollout, else the newest",
}
"""Words in capitals that a run fills in."""

_LONGEST_S = 600
"""For which a step that reads may be repeated."""

_HEADINGS = frozenset({"Meaning", "Diagnosis", "Mitigation", "Verify"})
_ALERTS = re.compile(r"Alerts:((?:\s+[A-Z][A-Za-z]+,)*\s+[A-Z][A-Za-z]+)\.", re.MULTILINE)
_TAG = re.compile(r"\s*<!--\s*step\b(.*)")
_NAMED = re.compile(r"\s*([a-z][a-z0-9-]*)\s*:\s*([a-z]+)\s*")
_GUARD = re.compile(r"([a-z][a-z0-9-]*) shows (\S.*)")
_UNFILLED = re.compile(r"(?:^|[/=])([A-Z][A-Z_]+)$")
_SHELL = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"})


class Kind(StrEnum):
    """Kinds of steps: ``read`` runs without asking, ``change`` asks first, ``decide`` is one alternative of several."""

    READ = "read"
    CHANGE = "change"
    DECIDE = "decide"


@dataclass(frozen=True)
class Guard:
    """When a step is needed: while the output of a reading step before it shows a text, or does not."""

    step: str
    text: str
    is_shown: bool

    def __str__(self) -> str:
        return f"{'if' if self.is_shown else 'unless'} {self.step} shows {quoted(self.text)}"


@dataclass(frozen=True)
class Step:
    """A tagged command block.

    Attributes:
        command: Its words after ``hermesops``.
        line: Of the tag, from 1.
        expected: Texts that its output has to show.
        absent: Texts that it must not show.
        undo: How the change is undone; empty for one that reads.
        exit_codes: Those besides 0 with which its command may end, as one that reads a broken machine may.
        within_s: Seconds for which one that reads is repeated until it shows what is expected.
        newer: Names of times in its output that have to be later than the last change.
        is_optional: Whether the run goes on without it where nobody is there to pick it.
    """

    name: str
    kind: Kind
    command: tuple[str, ...]
    line: int
    guards: tuple[Guard, ...]
    expected: tuple[str, ...]
    absent: tuple[str, ...]
    undo: Hint
    exit_codes: tuple[int, ...] = ()
    within_s: int = 0
    newer: tuple[str, ...] = ()
    is_optional: bool = False


@dataclass(frozen=True)
class Runbook:
    """A runbook.

    Attributes:
        name: Of its file, without ``.md``.
        alerts: Names of those that lead to it; empty for a procedure.
        text: As people read it, without tags.
        steps: In the order of the document; empty where nothing is tagged.
        cases: Rows of the table that tells what it is.
        diagnosed: How many of the steps come before any that mends or verifies.
        by_hand: Commands of its mitigation that are no steps, as a person types them: no run runs them.
    """

    name: str
    title: str
    text: str
    steps: tuple[Step, ...]
    alerts: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    diagnosed: int = 0
    by_hand: tuple[str, ...] = ()

    @property
    def values(self) -> frozenset[str]:
        """Placeholders among ``VALUES`` that the steps contain."""
        texts = (text for step in self.steps for text in (*step.command, *_texts(step)))
        return frozenset(word for text in texts for word in PLACEHOLDER.findall(text) if word in VALUES)

    def filled(self, values: Mapping[str, str]) -> "Runbook":
        """Fill an instance's values into the steps; each value stays within one word of its command."""
        put = partial(fill, values=values)
        steps = (
            replace(
                step,
                command=tuple(map(put, step.command)),
                guards=tuple(replace(guard, text=put(guard.text)) for guard in step.guards),
                expected=tuple(map(put, step.expected)),
                absent=tuple(map(put, step.absent)),
                undo=step.undo.put(**values),
            )
            for step in self.steps
        )
        cases = tuple(case.filled(values) for case in self.cases)
        return replace(self, steps=tuple(steps), cases=cases, by_hand=tuple(map(put, self.by_hand)))

    def begin_at(self, name: str) -> int:
        """Where in ``steps`` a run begins: with the step of that name, without one with the first.

        Raises:
            UsageError: It has no such step, or none at all.
        """
        names = [step.name for step in self.steps]
        if not names:
            hint = Hint(("runbook", "show", self.name), "lists the steps to follow by hand")
            raise UsageError(f"no command of {self.name} is tagged as a step", hint=hint)
        if name and name not in names:
            raise UsageError(f"{self.name} has no step {name!r}", hint=f"its steps: {', '.join(names)}")
        return names.index(name) if name else 0


def names(folder: Path) -> list[str]:
    """The runbooks in a folder; its other documents have other headings."""
    return sorted(file.stem for file in folder.glob("*.md") if file.stem.islower() and _is_runbook(file))


def load(folder: Path, name: str) -> Runbook:
    """Read a runbook, by its name or by that of an alert that leads to it.

    Raises:
        UsageError: There is none of that name, or a tag in it is wrong: with file and line.
    """
    known = names(folder)
    if name not in known:
        by_alert = {alert: runbook for runbook in known for alert in alerts_of(_text_of(folder, runbook))}
        if name not in by_alert:
            raise unknown_name("runbook", name, [*known, *by_alert])
        name = by_alert[name]
    return parse(name, _text_of(folder, name), str(folder / f"{name}.md"))


def alerts_of(text: str) -> tuple[str, ...]:
    """The alerts that a runbook's text names as those that lead to it."""
    match = _ALERTS.search(text)
    return tuple(name.strip() for name in match[1].split(",")) if match else ()


def parse(name: str, text: str, file: str) -> Runbook:
    """Read a runbook's text.

    Args:
        file: Where it stands, for errors.

    Raises:
        UsageError: A tag is wrong: with file and line.
    """
    lines = text.splitlines()
    steps: list[Step] = []
    text_lines: list[str] = []
    by_hand: list[str] = []
    mitigation = range(_heading(lines, "Mitigation"), _heading(lines, "Verify"))
    number = tagged = 0
    while number < len(lines):
        if tag := _TAG.match(lines[number]):
            step, number = _step(lines, number, tag[1], steps, file)
            tagged = number
            steps.append(step)
        elif _is_fence(lines[number]):
            end = _end_of_block(lines, number, file)
            text_lines += lines[number : end + 1]
            if number in mitigation and number != tagged:
                by_hand += [line.strip()[2:] for line in lines[number:end] if line.lstrip().startswith("$ ")]
            number = end + 1
        else:
            text_lines.append(lines[number])
            number += 1
    title = next((line[2:].strip() for line in lines if line.startswith("# ")), name)
    reading = [*takewhile(lambda step: step.kind is Kind.READ and step.line <= _heading(lines, "Mitigation"), steps)]
    by_word = {
        word: frozenset(read_step.name for read_step in reading if word in _names_of(read_step))
        for step in reading
        for word in _names_of(step)
    }
    begin = _heading(lines, "Diagnosis") + 1
    section = [*takewhile(lambda line: not line.startswith("## "), lines[begin:])]
    return Runbook(
        name,
        title,
        "\n".join(text_lines),
        tuple(steps),
        alerts_of(text),
        cases_of(section, by_word),
        len(reading),
        tuple(by_hand),
    )


def _heading(lines: Sequence[str], title: str) -> int:
    """The line of a section's heading, from 0; behind all others where there is none."""
    return lines.index(f"## {title}") if f"## {title}" in lines else len(lines)


def _names_of(step: Step) -> tuple[str, str]:
    """Names of a step in the diagnosis: its own name and the first words of its command."""
    return step.name, " ".join(step.command[:2])


def _step(lines: list[str], begin: int, rest: str, before: list[Step], file: str) -> tuple[Step, int]:
    """Parse the step whose tag begins in a line; returns it with the number of its block's first line."""
    head, *fields, block = _tag(lines, begin, rest, file)
    named = _NAMED.fullmatch(head[1])
    if not named or named[2] not in set(Kind):
        raise _wrong(file, begin, f"a tag begins with “step NAME: {'|'.join(Kind)}”")
    step = Step(named[1], Kind(named[2]), _command(lines, block[0], file), begin + 1, (), (), (), Hint())
    for number, field in fields:
        step = _with_field(step, number, field, before, file)
    if step.is_optional and step.kind is not Kind.DECIDE:
        raise _wrong(file, begin, "only a step that a person picks may be left out")
    if step.name in {other.name for other in before}:
        raise _wrong(file, begin, f"another step is named {step.name}")
    if step.kind is Kind.READ and not is_reading(step.command):
        raise _wrong(file, begin, f"{' '.join(step.command[:2])} is not a read-only command")
    if step.kind is not Kind.READ and not step.undo:
        raise _wrong(file, begin, "a step that changes something needs “undo:”")
    return step, block[0]


def _tag(lines: list[str], begin: int, rest: str, file: str) -> list[tuple[int, str]]:
    """Lines of a tag with their numbers, and last the line in which its block begins."""
    fields, number = [(begin, rest)], begin
    while "-->" not in fields[-1][1]:
        number += 1
        if number == len(lines):
            raise _wrong(file, begin, "the tag does not end with “-->”")
        fields.append((number, lines[number]))
    fields[-1] = (number, fields[-1][1].partition("-->")[0])
    block = number + 1
    if block >= len(lines) or lines[block].strip() != "```console":
        raise _wrong(file, begin, "a tag stands right before a block that begins with “```console”")
    return [fields[0], *(field for field in fields[1:] if field[1].strip()), (block, "")]


def _with_field(step: Step, number: int, field: str, before: list[Step], file: str) -> Step:
    key, colon, text = (part.strip() for part in field.partition(":"))
    if not colon or not text:
        raise _wrong(file, number, f"“{field.strip()}” is no “key: text”")
    match key:
        case "expect":
            return replace(step, expected=(*step.expected, text))
        case "absent":
            return replace(step, absent=(*step.absent, text))
        case "exit" if text.isdecimal() and text.isascii():
            return replace(step, exit_codes=(*step.exit_codes, int(text)))
        case "within" if step.kind is Kind.READ and text.isdecimal() and text.isascii() and int(text) <= _LONGEST_S:
            return replace(step, within_s=int(text))
        case "newer" if step.kind is Kind.READ:
            return replace(step, newer=(*step.newer, text))
        case "otherwise" if text == "left out":
            return replace(step, is_optional=True)
        case "undo":
            undo = Hint(_words(text, number, file)) if text.startswith("hermesops ") else Hint(text)
            return replace(step, undo=undo)
        case "if" | "unless":
            return replace(step, guards=(*step.guards, _guard(number, key, text, before, file)))
        case _:
            known = (
                "expect, absent, exit NUMBER, if, unless, undo, of a step that reads within SECONDS and newer, and of"
                " one that decides “otherwise: left out”"
            )
            raise _wrong(file, number, f"“{key}” is none of {known}")


def _guard(number: int, key: str, text: str, before: list[Step], file: str) -> Guard:
    match = _GUARD.fullmatch(text)
    if not match:
        raise _wrong(file, number, f"“{key}:” is followed by “STEP shows TEXT”")
    if match[1] not in {step.name for step in before if step.kind is Kind.READ}:
        raise _wrong(file, number, f"no step before this one reads and is named {match[1]}")
    return Guard(match[1], match[2], is_shown=key == "if")


def _command(lines: list[str], begin: int, file: str) -> tuple[str, ...]:
    """The words of the one command of a block."""
    block = range(begin + 1, _end_of_block(lines, begin, file))
    # Output may name commands too, further to the right.
    prompt = lines[begin].partition("`")[0] + "$ "
    typed = [number for number in block if lines[number].startswith(prompt)]
    if len(typed) != 1:
        raise _wrong(file, begin, f"a step has one command, this block has {len(typed)}")
    words = _words(lines[typed[0]].strip()[2:], typed[0], file)
    for word in words:
        if (placeholder := _UNFILLED.search(word)) and placeholder[1] not in VALUES:
            raise _wrong(
                file, typed[0], f"{placeholder[1]} is no known placeholder; known placeholders: {', '.join(VALUES)}"
            )
    return words


def _words(text: str, number: int, file: str) -> tuple[str, ...]:
    try:
        program, *words = shlex.split(text)
    except ValueError as error:
        raise _wrong(file, number, f"no shell would read this command: {error}") from error
    if program != "hermesops" or not words or words[0].startswith("-") or words[0] == "runbook":
        raise _wrong(file, number, "a step is a command of hermesops, names no environment, and runs no other runbook")
    for word in words:
        if word in _SHELL:
            raise _wrong(file, number, f"no shell runs this command, {word} would be a plain word")
    return tuple(words)


def _end_of_block(lines: list[str], begin: int, file: str) -> int:
    """The line that closes the block that begins in a line."""
    for number in range(begin + 1, len(lines)):
        if lines[number].strip() == "```":
            return number
    raise _wrong(file, begin, "the block is not closed")


def _is_fence(line: str) -> bool:
    return line.lstrip().startswith("```")


def _text_of(folder: Path, name: str) -> str:
    return (folder / f"{name}.md").read_text(encoding="utf-8")


def _is_runbook(file: Path) -> bool:
    text = file.read_text(encoding="utf-8")
    return set(re.findall(r"^## (.+)$", text, flags=re.MULTILINE)) >= _HEADINGS


def _texts(step: Step) -> Iterator[str]:
    """Texts of a step's tag in which values may stand."""
    yield from (*step.expected, *step.absent, *(guard.text for guard in step.guards))
    yield from (word for part in step.undo.parts if isinstance(part, tuple) for word in part)


def _wrong(file: str, number: int, what: str) -> UsageError:
    return UsageError(f"{file}:{number + 1}: {what}", hint="runbooks/TEMPLATE.md shows how steps are tagged")
