"""Commands that keep gates: defined by the computer that runs them, in an environment made for them, for a time."""

import contextlib
import json
import os
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest

from hermesops.agents.rollout.gates import hooks
from hermesops.agents.rollout.gates.hooks import AllowedHooks, ask_hook, parse_hook
from hermesops.agents.rollout.service import allowed_hooks
from hermesops.errors import RefusedError, UsageError
from hermesops.model.rollout.records import GateResult
from hermesops.model.rollout.spec import HookGate, Spec
from hermesops.settings.environment import Environment
from hermesops.store.registry.repositories.rollouts import targets
from tests.support.rollouts.rows import ROLLOUT


async def asked(command: str, *, timeout_s: float = 60.0) -> tuple[GateResult, str]:
    """What a computer that defines the command ``mine`` is told by it."""
    allowed = AllowedHooks({"mine": command})
    search = os.environ["PATH"]  # noqa: TID251 - finds env
    hook = HookGate("mine", timeout_s=timeout_s)
    return await ask_hook(hook, ROLLOUT, environment="staging", allowed=allowed, search=search)


def python(program: str) -> str:
    """A command line that runs a program."""
    return shlex.join([sys.executable, "-c", program])


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("print('fine')", (GateResult.PASS, "fine")),
        ("print('bad'); raise SystemExit(1)", (GateResult.FAIL, "bad")),
        ("raise SystemExit(2)", (GateResult.INCONCLUSIVE, "exit code 2")),
        ("import json, sys; print(json.load(sys.stdin)['release'])", (GateResult.PASS, ROLLOUT.release)),
        ("print('a\\x1b[2Kb')", (GateResult.PASS, "a\\x1b[2Kb")),
        ("print('x' * 10_000_000); print('end')", (GateResult.PASS, "end")),
    ],
)
async def test_a_commands_exit_code_is_its_answer(program: str, answer: tuple[GateResult, str]) -> None:
    assert await asked(python(program)) == answer


async def test_a_command_sees_facts_of_the_rollout_and_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HERMESOPS_SECRET_RELEASE_KEY", "HERMESOPS_API_KEY", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "geheim")
    file = tmp_path / "seen.json"
    program = f"import json, os; open({str(file)!r}, 'w').write(json.dumps(dict(os.environ)))"
    await asked(python(program))
    document = json.loads(file.read_text())
    home = document.pop("HOME")
    assert is_free(home)
    assert document.pop("PATH") == os.environ["PATH"]  # noqa: TID251 - what was given
    document.pop("LC_CTYPE", None)  # Python's own
    assert document == {
        "LANG": "C.UTF-8",
        "HERMESOPS_ROLLOUT_ID": ROLLOUT.id,
        "HERMESOPS_ROLLOUT_ENVIRONMENT": "staging",
        "HERMESOPS_ROLLOUT_RELEASE": ROLLOUT.release,
        "HERMESOPS_ROLLOUT_ACTION": ROLLOUT.action.value,
        "HERMESOPS_ROLLOUT_STATE": ROLLOUT.state.value,
    }


async def test_at_the_deadline_all_that_it_started_ends(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    program = (
        "import subprocess, sys, time; child = subprocess.Popen(['sleep', '60']);"
        f"open({str(file)!r}, 'w').write(str(child.pid)); time.sleep(60)"
    )
    begun = time.monotonic()
    assert await asked(python(program), timeout_s=2) == (GateResult.INCONCLUSIVE, "no answer in 2 s")
    assert time.monotonic() - begun < 10
    assert is_gone(int(file.read_text()))


async def test_what_it_leaves_running_ends_with_it_and_holds_nothing_up(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    begun = time.monotonic()
    command = shlex.join(["sh", "-c", f"sleep 60 & echo $! > {file}; echo done"])
    assert await asked(command) == (GateResult.PASS, "done")
    assert time.monotonic() - begun < 10
    assert is_gone(int(file.read_text()))


_LEAVES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open({file!r}, "w").write(str(os.getpid()))
        time.sleep(60)
    os._exit(0)
while not os.path.exists({file!r}) or not open({file!r}).read():
    time.sleep(0.01)
print("done", flush=True)
time.sleep({stays_s})
"""
"""A command one of whose processes leaves its session and its parent, and keeps the output open."""


@pytest.mark.parametrize(
    ("stays_s", "answer"),
    [(0, (GateResult.PASS, "done")), (60, (GateResult.INCONCLUSIVE, "no answer in 3 s"))],
)
async def test_one_that_leaves_its_session_and_its_parent_ends_with_it(
    tmp_path: Path, stays_s: int, answer: tuple[GateResult, str]
) -> None:
    file = tmp_path / "pid"
    begun = time.monotonic()
    assert await asked(python(_LEAVES.format(file=str(file), stays_s=stays_s)), timeout_s=3) == answer
    assert time.monotonic() - begun < 10
    assert is_gone(int(file.read_text()))


async def test_nothing_hangs_where_the_guard_itself_is_stopped_and_the_output_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "_ENDING_S", 1.0)
    file = tmp_path / "pid"
    program = (
        "import os, signal, time;"
        f"open({str(file)!r}, 'w').write(str(os.getpid())); os.kill(os.getppid(), signal.SIGSTOP); time.sleep(60)"
    )
    begun = time.monotonic()
    assert await asked(python(program), timeout_s=2) == (GateResult.INCONCLUSIVE, "no answer in 2 s")
    assert time.monotonic() - begun < 10
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(file.read_text()), signal.SIGKILL)


async def test_one_that_is_ended_by_a_signal_is_inconclusive() -> None:
    program = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert await asked(python(program)) == (GateResult.INCONCLUSIVE, "exit code 137")


@pytest.mark.parametrize(("command", "words"), [("/nowhere", "/nowhere: No such file"), ("'", "without a command")])
async def test_a_command_that_cannot_be_run_is_inconclusive(command: str, words: str) -> None:
    result, detail = await asked(command)
    assert result is GateResult.INCONCLUSIVE
    assert words in detail


async def test_a_command_in_a_rollouts_row_is_never_run(tmp_path: Path) -> None:
    """Whoever can write the registry, or started a rollout with an older hermesops, runs nothing on a worker."""
    canary = tmp_path / "canary"
    row = targets.to_json(Spec())
    row["gates"]["hooks"] = [{"name": "evil", "command": ["touch", str(canary)], "url": "", "timeout_s": 60}]
    [hook] = targets.from_json(Spec, row).gates.hooks
    allowed = AllowedHooks({"smoke": "true"})
    webhook = await ask_hook(hook, ROLLOUT, environment="staging", allowed=allowed, search="/usr/bin:/bin")
    assert webhook == (
        GateResult.INCONCLUSIVE,
        "hook evil is not defined on this computer",
    )
    assert not canary.exists()


def test_a_start_names_the_hooks_that_there_are(tmp_path: Path) -> None:
    folder = tmp_path / "staging"
    folder.mkdir()
    (folder / "settings.toml").write_text('[rollout.hooks]\nsmoke = "/usr/local/bin/smoke --x"\nload = "load"\n')
    allowed = allowed_hooks(Environment.load("staging", {"HOME": "/h", "HERMESOPS_HOME": str(tmp_path)}))
    allowed.refuse_others([HookGate("smoke"), HookGate("load")])
    assert allowed.words("smoke") == ("/usr/local/bin/smoke", "--x")
    with pytest.raises(RefusedError, match="hook smok is not defined") as caught:
        allowed.refuse_others([HookGate("smok")])
    assert "load, smoke" in str(caught.value.hint)
    with pytest.raises(RefusedError, match="is not among the hosts"):
        allowed.refuse_others([HookGate("web", url="https://other.example/")])


def test_no_variable_defines_a_hook(tmp_path: Path) -> None:
    variables = {"HOME": "/h", "HERMESOPS_HOME": str(tmp_path), "HERMESOPS_ROLLOUT_HOOKS": "x=sh"}
    with pytest.raises(UsageError, match=r"settings\.toml only"):
        Environment.load("staging", variables)
    facts = {"HOME": "/h", "HERMESOPS_HOME": str(tmp_path), "HERMESOPS_ROLLOUT_ID": "r1"}
    assert not Environment.load("staging", facts).settings.rollout.hooks


@pytest.mark.parametrize("text", ["x=sh -c true", "=https://a", "x=", ""])
def test_an_option_takes_no_command(text: str) -> None:
    with pytest.raises(UsageError, match="is neither NAME nor") as caught:
        parse_hook(text)
    assert "[rollout.hooks]" in str(caught.value.hint)


def test_an_option_takes_a_name_or_a_service() -> None:
    assert parse_hook("smoke") == HookGate("smoke")
    assert parse_hook("web=https://h.example/x=y") == HookGate("web", url="https://h.example/x=y")


def is_free(path: str) -> bool:
    """Whether nothing has a name."""
    return not Path(path).exists()


def is_gone(pid: int) -> bool:
    """Whether a process has ended, though nobody may have waited for it yet."""
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"
