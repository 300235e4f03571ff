"""No program that we start is given our environment: it holds keys of the whole fleet."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hermesops
from hermesops.base import child_environment
from hermesops.base.child_environment import BUCKET, GO, NETWORK, PACKAGES, PULUMI, SSH_AGENT
from hermesops.settings.environment import Environment
from tests.support.suite.cases import each_case

ROOT = Path(hermesops.__file__).parent

STARTERS = {
    "subprocess": {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "os": {
        *("system", "popen", "execv", "execl", "execlp", "execvp", "execle", "execve", "execvpe"),
        *("posix_spawn", "posix_spawnp", "spawnv", "spawnl", "spawnvp", "spawnve", "fork", "forkpty"),
    },
    "pty": {"spawn", "fork"},
    "ansible_runner": {"run", "run_async", "run_command", "interface.init_runner"},
}
"""Calls that start a program, by module."""

EXPLAINED = {
    "machines/verify/on_machine/batch.py": "runs on a machine, where nothing of ours is in the environment",
    "machines/verify/on_machine/observer.py": "as batch.py",
    "agents/backup/proof/confinement.py": "forks itself and starts no program",
    "programs/node/system/resident.py": "as confinement.py",
    "agents/rollout/gates/hook_guard.py": "hands on the environment that was made for it",
    "machines/release/source/inside.py": "runs behind the walls of a build, whose environment was made for it",
    "machines/converge/playbook.py": "ansible-runner takes no environment: it is replaced before the run",
}

FLEET = {
    "HERMESOPS_API_KEY": "k1",
    "HERMESOPS_REGISTRY_URL": "k2",
    "HERMESOPS_ROLLOUT_WEBHOOK": "k3",
    "HERMESOPS_MODEL_API_KEY": "k4",
    "HERMESOPS_SECRET_RELEASE_KEY": "k5",
    "AWS_SECRET_ACCESS_KEY": "k6",
    "PULUMI_CONFIG_PASSPHRASE": "k7",
    "PULUMI_ACCESS_TOKEN": "k8",
    "UV_PUBLISH_TOKEN": "k9",
    "GOOGLE_APPLICATION_CREDENTIALS": "k10",
    "OPENAI_API_KEY": "k11",
}
PLAIN = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "HTTPS_PROXY": "http://p", "PIP_INDEX_URL": "i", "GOPROXY": "g"}


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Calls of a file that start a program."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            module, _, function = _dotted(node.func).partition(".")
            if function in STARTERS.get(module, ()):
                yield f"{module}.{function}", node


def _dotted(node: ast.expr) -> str:
    """A name with what it is taken from; empty for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{owner}.{name}" if (owner := _dotted(value)) else ""
    return ""


def sources(pattern: str) -> Iterator[tuple[Path, str]]:
    """Files in which something stands that only a file with such a call or import has: walking all takes seconds."""
    for file in sorted(ROOT.rglob("*.py")):
        text = file.read_text()
        if re.search(pattern, text, re.MULTILINE):
            yield file, text


def is_clean(call: ast.Call) -> bool:
    """Whether it passes an environment that is not plainly this process's."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "env"]
    return bool(given) and "environ" not in {n.attr for n in ast.walk(given[0]) if isinstance(n, ast.Attribute)}


def test_every_program_is_started_with_an_environment_of_its_own() -> None:
    lines, without = set[str](), list[str]()
    functions = {name.rpartition(".")[2] for names in STARTERS.values() for name in names}
    for file, text in sources(rf"({'|'.join(STARTERS)})\.[\w.]*\b({'|'.join(functions)})\b"):
        place = str(file.relative_to(ROOT))
        for name, call in calls(ast.parse(text)):
            lines.add(place)
            if place not in EXPLAINED and not is_clean(call):
                without.append(f"{place}:{call.lineno} {name}")
    assert without == []
    assert set(EXPLAINED) <= lines, "an explanation without a call is to be removed"
    assert len(lines) > 20, "the walk finds nothing any more"


@each_case(
    ("line", "clean"),
    [
        ("subprocess.run(['x'])", False),
        ("subprocess.Popen(['x'], env=os.environ)", False),
        ("asyncio.create_subprocess_exec('x', env={**os.environ})", False),
        ("os.execv('x', ['x'])", False),
        ("subprocess.run(['x'], env=child_environment.made())", True),
    ],
)
def test_the_walk_tells_one_from_the_other(line: str, clean: bool) -> None:  # noqa: FBT001 - a case
    [(_, call)] = calls(ast.parse(line))
    assert is_clean(call) is clean


def test_nobody_else_imports_a_starter_under_another_name() -> None:
    """The walk knows calls by their module's name."""
    hidden = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file, text in sources(rf"^\s*(from ({'|'.join(STARTERS)}) import|import .* as )")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom | ast.Import)
        and (
            (
                isinstance(node, ast.ImportFrom)
                and node.module in STARTERS
                and any(alias.name in STARTERS[str(node.module)] for alias in node.names)
            )
            or (isinstance(node, ast.Import) and any(a.name in STARTERS and a.asname for a in node.names))
        )
    ]
    assert hidden == []


@each_case("names", [(), (NETWORK,), (PACKAGES,), (GO,), (PULUMI,), (SSH_AGENT,)])
def test_no_list_takes_a_key_of_the_fleet(names: tuple[child_environment.Names, ...]) -> None:
    variables = child_environment.made(*names, variables={**FLEET, **PLAIN})
    assert not set(variables) & set(FLEET)
    assert {"PATH", "HOME", "LC_ALL"} <= set(variables)


def test_a_list_takes_what_its_programs_are_set_up_by() -> None:
    given = {**FLEET, **PLAIN}
    assert "HTTPS_PROXY" not in child_environment.made(variables=given)
    assert child_environment.made(GO, variables=given)["GOPROXY"] == "g"
    assert child_environment.made(PACKAGES, variables=given)["PIP_INDEX_URL"] == "i"
    assert "PIP_INDEX_URL" not in child_environment.made(GO, variables=given)
    assert child_environment.made(BUCKET, variables=given).keys() >= {"AWS_SECRET_ACCESS_KEY"}
    assert child_environment.made(variables=given, added={"PATH": "/x"})["PATH"] == "/x"


def test_another_process_of_hermesops_gets_settings_and_only_the_secrets_that_it_names(tmp_path: Path) -> None:
    env = Environment.load("local", {**FLEET, **PLAIN, "HERMESOPS_HOME": str(tmp_path), "HERMESOPS_REGION": "x"})
    given = env.for_hermesops(secrets={"HERMESOPS_API_KEY"})
    assert {name for name in given if name in FLEET} == {"HERMESOPS_API_KEY"}
    assert (given["HERMESOPS_REGION"], given["HERMESOPS_ENV"], given["HERMESOPS_HOME"]) == ("x", "local", str(tmp_path))


def test_a_copy_of_our_environment_is_known_by_what_was_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMESOPS_API_KEY", "k1")
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "mine")
    copy = {"HERMESOPS_API_KEY": "k1", "ANSIBLE_STDOUT_CALLBACK": "awx_display", "AWX_ISOLATED_DATA_DIR": "/a"}
    assert child_environment.not_ours(copy) == {
        "ANSIBLE_STDOUT_CALLBACK": "awx_display",
        "AWX_ISOLATED_DATA_DIR": "/a",
    }


def test_an_import_of_the_queue_starts_no_program(tmp_path: Path) -> None:
    program, ran = tmp_path / "file", tmp_path / "ran"
    program.write_text(f"#!/bin/sh\nenv > {ran}\n")
    program.chmod(0o755)
    code = "import platform, hermesops.store.operations.queue; print(platform.architecture()[0])"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(ROOT.parent)}
    completed = subprocess.run(
        [sys.executable, "-c", "import croniter"], env=environment, check=True, capture_output=True
    )
    assert completed.stdout == b""
    assert ran.exists(), "without care it does"
    ran.unlink()
    done = subprocess.run([sys.executable, "-c", code.partition("; ")[0]], env=environment, check=True)
    assert (done.returncode, ran.exists()) == (0, False)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    assert ran.exists(), "afterwards it is asked as ever"
