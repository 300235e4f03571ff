"""Every command that hermesops tells people to type is one that its own command line takes."""

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hermesops.agents.drift.repairs import REMEDIES
from hermesops.cli.commands import SUMMARIES
from hermesops.cli.groups import lazy as lazy_groups
from hermesops.errors import Hint, RefusedError
from hermesops.model.unknown_name import LISTED_BY
from tests.support.hostile.agents.hostile_moods import ESCAPES
from tests.support.suite.cases import each_case

PACKAGE = Path(__file__).resolve().parents[3] / "hermesops"
SOURCES = sorted(PACKAGE.rglob("*.py"))

_HINTS = {"Hint", "advice"}
_MENTION = re.compile(r"hermesops(?![\w./])")
_COMMAND = re.compile(rf"(?<![\w/.-])hermesops (?:--env \S+ )?(?:{'|'.join(SUMMARIES)})\b")

PROSE = {
    "cli/commands/job.py": ["job list"],
    "cli/commands/release.py": ["release check-upstream tags.json", "release check-upstream -"],
    "cli/commands/local.py": ["local fault kinds"],
    "agents/drift/lost_registry/rebuild.py": ["image build"],
    "localcloud/world/local_world.py": ["local up"],
    "programs/node/instance/certificate.py": ["identity renew USER"],
    "programs/node/release/fetch.py": ["release signers restore --reason WHY"],
    "agents/rollout/steps/decide.py": ["fleet outdated"],
    "agents/rollout/steps/runner.py": ["operation list"],
    "agents/rollout/steps/stage_entry.py": ["rollout promote ROLLOUT"],
    "cli/commands/rollout/group.py": ["rollout start RELEASE --all"],
    "settings/fields.py": ["identity serve"],
}
"""Commands in help texts, narration, records and words of a machine: they follow from no error."""


def _word(node: ast.expr) -> str | None:
    """A word of a command as it stands in the source: ``VALUE`` for an expression, nothing for several words."""
    if isinstance(node, ast.Starred):
        return None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else "VALUE"


def _is_hint(node: ast.AST) -> bool:
    """Whether it is a call of ``Hint`` or ``advice``, whatever module or object it is taken from."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _HINTS
    return False


def _named(nodes: Sequence[ast.AST]) -> dict[str, list[ast.expr]]:
    """What is assigned to each name of a module, in whichever function."""
    by_name: dict[str, list[ast.expr]] = {}
    for node in (child for child in nodes if isinstance(child, ast.Assign)):
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for name, value in pairs:
                if isinstance(name, ast.Name):
                    by_name.setdefault(name.id, []).append(value)
    return by_name


def _tuples(node: ast.expr, named: dict[str, list[ast.expr]]) -> Iterator[ast.Tuple]:
    """The commands among the parts of a hint, whichever of several is chosen."""
    several: list[ast.expr] = []
    match node:
        case ast.Tuple():
            yield node
        case ast.IfExp():
            several = [node.body, node.orelse]
        case ast.BoolOp():
            several = node.values
        case ast.Name():
            several = [expression for expression in named.get(node.id, []) if not isinstance(expression, ast.Name)]
    for expression in several:
        yield from _tuples(expression, named)


def told() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Where each command of a hint is written, and its words."""
    for path in SOURCES:
        text = path.read_text()
        if not any(f"{name}(" in text for name in _HINTS):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        named = _named(nodes)
        for call in filter(_is_hint, nodes):
            assert isinstance(call, ast.Call)
            for command in (child for part in call.args for child in _tuples(part, named)):
                words = tuple(word for word in map(_word, command.elts) if word is not None)
                # ``console.require_reason`` and ``listen`` are given the words of a command.
                if words and not isinstance(command.elts[0], ast.Starred):
                    yield f"{path.relative_to(PACKAGE)}:{command.lineno}", words


def problem_of(words: tuple[str, ...]) -> str:
    """What the command line says about a command; empty when it takes it."""
    if words[0] not in SUMMARIES:
        return f"no command {words[0]}"
    command, rest = lazy_groups.load(words[0]), list(words[1:])
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    if "--help" in rest:
        return ""
    if hasattr(command, "commands"):
        return f"no command {' '.join([*words[: len(words) - len(rest)], *rest[:1]])}"
    try:
        return _unread(command, rest)
    except Exception as refused:  # noqa: BLE001 - its class is private to Typer
        return str(refused) or type(refused).__name__


def _unread(command: Any, rest: list[str]) -> str:  # noqa: ANN401 - its class is private to Typer
    context = command.context_class(command)
    given, left, _ = command.make_parser(context).parse_args(args=rest)
    missing = [param.name for param in command.params if param.required and not given.get(param.name)]
    return f"missing: {', '.join(missing)}" if missing else f"too many words: {' '.join(left)}" if left else ""


def many() -> list[tuple[str, tuple[str, ...]]]:
    hints = list(told())
    assert len(hints) > 250, "the commands of hints are not found"
    return hints


@each_case(("where", "words"), many)
def test_a_command_that_people_are_told_to_type_is_taken(where: str, words: tuple[str, ...]) -> None:
    assert problem_of(words) == "", f"{where} tells people to type {Hint(words)}"


@each_case("words", {words for remedy in REMEDIES.values() for words in (*remedy.repair, *remedy.otherwise)})
def test_a_command_that_repairs_a_difference_is_taken(words: tuple[str, ...]) -> None:
    assert problem_of(words) == ""


@each_case("words", LISTED_BY.values())
def test_the_command_that_lists_the_things_of_a_noun_is_taken(words: tuple[str, ...]) -> None:
    assert problem_of(words) == ""


@each_case(
    ("words", "problem"),
    [
        ("instance list --nowhere x=y", "No such option: --nowhere"),
        ("instance show", "missing: user"),
        ("instance show USER OTHER", "too many words: OTHER"),
        ("instance shows USER", "no command instance shows"),
        ("instance resize USER --plan", "Option '--plan' requires an argument"),
        ("instances list", "no command instances"),
        ("release signers restore", "missing: reason"),
        ("release signers restore --reason WHY", ""),
        ("instance list", ""),
    ],
)
def test_what_the_command_line_would_not_take_is_found(words: str, problem: str) -> None:
    output = problem_of(tuple(words.split()))
    assert problem in output
    assert bool(output) == bool(problem)


def _texts(source: str) -> Iterator[str]:
    """Every text of a module but docstrings."""
    tree = ast.parse(source)
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(_word(part) or "" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner | bare:
            yield node.value


def test_no_text_has_a_command_that_would_act_on_another_environment() -> None:
    by_name: dict[str, list[str]] = {}
    for path in SOURCES:
        source = path.read_text()
        for text in _texts(source) if _MENTION.search(source) else ():
            by_name.setdefault(str(path.relative_to(PACKAGE)), []).extend(_COMMAND.findall(text))
    named = {file: [f"hermesops {' '.join(words.split()[:1])}" for words in reports] for file, reports in PROSE.items()}
    assert {file: texts for file, texts in by_name.items() if texts} == named, "write these as Hint, with tuples"


@each_case("words", [words for reports in PROSE.values() for words in reports])
def test_a_command_of_other_texts_is_taken(words: str) -> None:
    assert problem_of(tuple(words.split())) == ""


_ELSEWHERE = re.compile(r"\b(ansible-playbook|curl|docker|journalctl|nft|psql|restic [a-z]+ -|systemctl)\b")
"""Programs of machines and of the platform's host, which need their root or their certificates: who reads a hint has
neither. ``instance exec`` and ``platform logs`` are the way there."""


def _advised(source: str) -> Iterator[str]:
    """What the hints of a module say that is no command of ours."""
    for node in ast.walk(ast.parse(source)):
        texts: list[ast.expr] = []
        match node:
            case ast.Call(args=args) if _is_hint(node):
                texts = args
            case ast.keyword(arg="hint", value=value):
                texts = [value]
        for text in texts:
            yield from _parts(text)


def _parts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from (*_parts(node.body), *_parts(node.orelse))
    elif isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        yield _word(node) or ""


def test_no_hint_names_a_program_that_its_reader_cannot_run() -> None:
    sources = [
        f"{path.relative_to(PACKAGE)}: {text}"
        for path in SOURCES
        for text in _advised(path.read_text())
        if _ELSEWHERE.search(text)
    ]
    assert sources == [], "write a command of ours that does it, as instance exec"
    advised = _advised('error("no", hint=Hint("wait") if late else f"see journalctl --unit {unit}")')
    assert sorted(text for text in advised if _ELSEWHERE.search(text)) == ["see journalctl --unit VALUE"]


def test_a_hint_reads_as_a_sentence() -> None:
    show, end = ("instance", "show", "ada"), ("instance", "terminate", "ada", "--undo")
    assert Hint(show).text("production") == "hermesops --env production instance show ada"
    assert str(Hint("look first:", show, ", then", end)) == (
        "look first: hermesops instance show ada, then hermesops instance terminate ada --undo"
    )
    assert str(Hint(Hint(show, "says why"), ";", Hint("or wait"))) == "hermesops instance show ada says why; or wait"
    assert str(Hint(Hint(), ";", show)) == "hermesops instance show ada", "what stood before the sign is empty"
    assert not Hint("")
    assert RefusedError("no", hint="wait").hint == Hint("wait")


def test_values_take_the_place_of_words_in_capitals() -> None:
    hint = Hint("USER is a word here:", ("instance", "list", "USER", "user=USER", "USERS")).put(USER="a b")
    assert hint.parts[1] == ("instance", "list", "a b", "user=a b", "USERS")
    assert hint.parts[0] == "USER is a word here:"


@each_case(
    "value", ["ada lovelace", "ada; reboot", "$(reboot)", "`reboot`", "it's", 'a"b', "a\\b", "*", "> FILE", "", "--now"]
)
def test_a_value_from_outside_is_one_word_for_the_shell(value: str) -> None:
    for hint in (Hint(("instance", "show", value)), Hint(("instance", "show", "USER")).put(USER=value)):
        assert shlex.split(hint.text("staging")) == ["hermesops", "--env", "staging", "instance", "show", value]


@each_case("value", [ESCAPES, "a\nb", "a\tb", "\x1b]52;c;x\x07", "ada\u202eeda", "\x00"])
def test_a_value_from_outside_brings_nothing_that_a_terminal_obeys(value: str) -> None:
    hint = Hint(("instance", "show", value))
    assert str(hint).isprintable()
    [command] = hint.parts
    assert isinstance(command, tuple)
    assert len(shlex.split(str(hint))) == len(("hermesops", *command))
