"""The field's words, and no others: words that are gone from the product do not come back.

Two tables say what to write instead. They grow whenever a word goes; nothing is taken out of them.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.suite.cases import each_case

TOP = Path(__file__).parents[3]

IDENTIFIERS = {
    "ailment": "fault",
    "ailments": "faults",
    "arrival": "provision_result",
    "arrivals": "provision_results",
    "bringing": "executor, apply, deploy",
    "brought": "applied, deployed",
    "chore": "job",
    "chores": "jobs",
    "clerk": "repairs",
    "course": "batches",
    "crowding": "storage_pressure",
    "desk": "context",
    "doomed": "machines_to_delete",
    "errand": "user_process",
    "errands": "jobs",
    "exercise": "run_trial",
    "farewell": "schedule_termination",
    "footing": "state, place",
    "grounds": "placement",
    "hearings": "agent_answers",
    "homes": "backends",
    "hurt": "failed",
    "lapsed": "confirm_timed_out",
    "lapses": "confirm_timeouts",
    "laying": "stage_rollback_files",
    "lives": "operation handlers, instance requests",
    "misbehaviour": "fault",
    "moment": "timestamp, at",
    "newcomers": "bulk_provision",
    "outlook": "change_preview, rollout_progress",
    "owed": "outdated",
    "parting": "termination_state",
    "patience": "timeout, unreachable_after_s",
    "pulse": "liveness",
    "purse": "budget",
    "readings": "health_samples",
    "recall": "read_identity",
    "scene": "observation",
    "shelf": "contents, blob_store",
    "sight": "observation",
    "sighting": "observation",
    "sightings": "observations",
    "spare": "unassigned (machine)",
    "spares": "unassigned (machines)",
    "steered": "transition",
    "tell": "report",
    "trail": "audit_log",
    "unheard": "confirm_error",
    "visits": "operator_access",
    "welcome": "run",
    "whereabouts": "relocation_state",
    "wish": "request",
    "wishes": "requests",
}
"""Words that no name of a class, function, parameter or attribute contains, and what to call it."""

NAMES = {
    "Accounts": "FleetSnapshot",
    "App": "Container",
    "BeginAnew": "Retry",
    "Bringing": "BatchExecutor",
    "CarriedReleases": "ReleaseTransfer",
    "Desk": "WriteContext",
    "Gathering": "RunCoalescer",
    "Heard": "GateAnswer",
    "Held": "PoolMachine, SecretState, RenewedLease",
    "Impossible": "Refused",
    "Keeps": "StoresSamples",
    "LentFiles": "TempFiles",
    "Looks": "Observes",
    "Make": "Handler",
    "Purpose": "MachineRole",
    "PuttingBack": "RestoreState",
    "Reach": "InstanceClient",
    "Reading": "HealthSample",
    "Remains": "AbandonNote",
    "RestingReach": "PowerControl",
    "Said": "OperatorCommand",
    "Session": "Runtime",
    "Shelf": "RepositoryContents, BlobStore",
    "Standing": "ReleaseStatus",
    "Told": "NodeReport, CommandStatus",
    "Trail": "AuditLog",
    "Tried": "TrialResult",
    "Visits": "OperatorAccess",
    "Watched": "HealthObservation",
    "WayBack": "RollbackResult",
    "Weighed": "FailureGateAnswer",
    "Work": "Reconciler",
    "Works": "OperationHandlers",
    "apart": "in_db_thread",
    "bring": "apply (a stack), deploy (a release)",
    "bring_up": "start_gateway",
    "carried": "migrated",
    "go_back": "roll_back",
    "look": "observe",
    "look_as": "observe_as",
    "put_back": "restore",
    "said_before": "last_before",
    "steer": "give_command",
}
"""Names that are used for nothing any more, and what to call it."""

PHRASES = {
    "as promised": "as specified",
    "chore": "job",
    "fleet owed": "fleet outdated",
    "had back": "cancelled",
    "is awake": "is running",
    "is nobody's": "has no instance, is unassigned",
    "it hurts": "a gate fails",
    "told those who want to know": "notified",
    "living agent": "running agent",
    "put to sleep": "suspended",
    "rows written since were carried": "rows written since were migrated",
    "short of room": "low on disk",
    "sleeping agent": "suspended agent",
    "that sleep": "that are suspended",
    "those hurt": "those failed",
    "the agent sleeps": "the agent is suspended",
    "walks the way": "rehearses upgrade and rollback",
}
"""Phrases that no text for people contains: help, messages, docstrings, comments, README, runbooks."""

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


def test_no_identifier_has_a_word_that_is_gone() -> None:
    paths = [
        f"{file.relative_to(TOP)}:{line}: {name}: say {better}"
        for file in sorted((TOP / "hermesops").rglob("*.py"))
        for line, name in _identifiers(ast.parse(file.read_text(encoding="utf-8")))
        for better in _better(name)
    ]
    assert not paths, "\n".join(["words that are gone:", *paths])


def test_no_text_has_a_phrase_that_is_gone() -> None:
    files = [
        TOP / "README.md",
        TOP / "CONTRIBUTING.md",
        *sorted((TOP / "runbooks").glob("*.md")),
        *sorted((TOP / "hermesops").rglob("*.py")),
    ]
    names = [
        f"{file.relative_to(TOP)}:{number}: {phrase!r}: say {better}"
        for file in files
        for text in [file.read_text(encoding="utf-8")]
        for phrase, better in PHRASES.items()
        if phrase in text
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(rf"(?<![\w./-]){re.escape(phrase)}(?![\w-])", line) and not _names_a_file(line, phrase)
    ]
    assert not names, "\n".join(["phrases that are gone:", *names])


def test_a_word_that_is_gone_is_told_with_its_line_and_a_better_one() -> None:
    tree = ast.parse("class Wish:\n    pulse: int\n\n    def put_back(self, doomed): ...\n")
    assert [(line, better) for line, name in _identifiers(tree) for better in _better(name)] == [
        (1, "request"),
        (2, "liveness"),
        (4, "machines_to_delete"),
        (4, "restore"),
    ]


UNTYPED = frozenset({"asked", "found", "made", "one", "said", "seen", "told"})
"""Names of values that do not say of which type the value is."""

_BOUND = re.compile(rf"\b(?:{'|'.join(sorted(UNTYPED))})\b\s*(?:\*\*|//|<<|>>|[-+*/%@&|^])?(?:[]=:,;)}}#\\]|in\b|$)")
"""One of them, and what can follow a name where it is bound. Parsing only files with it takes a third of the time."""


def test_values_are_named_by_their_type() -> None:
    files = sorted(path for folder in ("hermesops", "tests") for path in Path(folder).rglob("*.py"))
    named = [
        f"{path}:{line}: {name}"
        for path in files
        for text in [path.read_text(encoding="utf-8")]
        if _BOUND.search(text)
        for line, name in _local_names(ast.parse(text))
        if name in UNTYPED
    ]
    assert len(files) > 2000
    assert not named, "\n".join(["values that are not named by their type:", *named])


def test_a_local_value_is_seen_wherever_it_is_bound() -> None:
    function = "def f(made):\n    with a as found:\n        return [one for one in found]\n"
    text = f"told = 1\n{function}class C:\n    asked: int\n"
    assert [name for _, name in _local_names(ast.parse(text)) if name in UNTYPED] == ["made", "found", "one"]


@each_case(
    "text",
    [
        *("def f(one): ...", "def f(one=1): ...", "def f(one: int): ...", "def f(*one): ...", "lambda one: 1"),
        *("def f():\n    one = 1", "def f():\n    one += 1", "def f():\n    one //= 1", "def f():\n    one: int = 1"),
        *("def f():\n    a, one = b", "def f():\n    (a, one) = b", "def f():\n    [a, one] = b"),
        *("def f():\n    with a as one: pass", "def f():\n    with (a as one): pass", "[one for one in a]"),
        *("def f():\n    if (one := 1): pass", "def f(\n    one\n): ...", "def f(\n    one  # it\n): ..."),
        *("def f():\n    one \\\n    = 1", "def f():\n    for one in a: pass", "def f():\n    for a, one in b: pass"),
    ],
)
def test_a_file_that_binds_such_a_name_is_parsed(text: str) -> None:
    assert "one" in [name for _, name in _local_names(ast.parse(text))]
    assert _BOUND.search(text)


def _local_names(node: ast.AST, *, is_local: bool = False) -> Iterator[tuple[int, str]]:
    """Names that functions, lambdas and comprehensions bind: parameters and variables."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if is_local:
            yield node.lineno, name
        case ast.ClassDef():
            is_local = False
        case _:
            is_local = is_local or isinstance(node, _SCOPES)
    for child in ast.iter_child_nodes(node):
        yield from _local_names(child, is_local=is_local)


_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
"""Nodes whose names are local."""


def _identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names that the module gives: classes, functions, parameters, fields and attributes that are set."""
    pairs = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                pairs.add((node.lineno, name))
            case ast.arg(arg=name) | ast.AnnAssign(target=ast.Name(id=name)):
                pairs.add((node.lineno, name))
            case ast.Attribute(attr=name, ctx=ast.Store()):
                pairs.add((node.lineno, name))
            case _:
                pass
    yield from sorted(pairs)


def _better(name: str) -> Iterator[str]:
    if name in NAMES:
        yield NAMES[name]
    else:
        yield from (IDENTIFIERS[part] for part in map(str.lower, _PARTS.findall(name)) if part in IDENTIFIERS)


def _names_a_file(line: str, phrase: str) -> bool:
    """Whether the phrase is only part of a module or file that is still called so."""
    return bool(re.search(rf"(import|hermesops|MODULES).*\b{re.escape(phrase)}\b", line)) and " " not in phrase
