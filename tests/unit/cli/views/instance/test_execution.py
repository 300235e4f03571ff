"""Results of a command on several machines: bounded, and one line stays one line."""

from hermesops.agents.instances.remote.several import Outcome
from hermesops.cli.views.instance import execution as view
from hermesops.errors import Hint, RefusedError
from hermesops.vendor.channel import Completed
from hermesops.views.agents.executions import execution
from tests.support.fakes.instances import ADA

DONE = Outcome(ADA, Completed(3, b"one\ntwo\n", b"warning\n"))
REFUSED: Outcome[Completed] = Outcome(ADA, RefusedError("ada is suspended", hint=Hint(("instance", "resume", "ada"))))


def test_each_line_begins_with_its_user() -> None:
    assert view.lines(DONE) == ["ada: one", "ada: two", "ada: warning"]
    assert view.lines(REFUSED) == ["ada: ada is suspended"]
    assert view.lines(Outcome(ADA, Completed(0, b"a\rben: b\x1b[2J", b""))) == ["ada: a", "ada: ben: b\\x1b[2J"]


def test_the_output_of_one_machine_is_bounded() -> None:
    for output in (b"x\n" * 1000, b"x" * 100_000):
        outcome = Outcome(ADA, Completed(0, output, b""))
        shown, shape = view.lines(outcome), execution(outcome)
        assert len(shown) <= 201
        assert sum(map(len, shown)) < 70_000
        kept = len(str(shape["stdout"]))
        assert shown[-1] == f"ada: … {len(output) - kept} bytes more are left out"
        assert shape["left_out"] == len(output) - kept


def test_the_exit_code_is_the_commands_or_that_of_the_error() -> None:
    assert (view.row(DONE)["exit_code"], view.row(REFUSED)["exit_code"]) == (3, 3)
    assert view.row(REFUSED) == {"user": "ada", "exit_code": 3, "problem": "ada is suspended"}
    assert execution(DONE) | {"instance_id": ""} == {
        "user": "ada",
        "instance_id": "",
        "exit_code": 3,
        "error": None,
        "hint": None,
        "stdout": "one\ntwo\n",
        "stderr": "warning\n",
        "left_out": 0,
    }
    assert execution(REFUSED)["error"] == "ada is suspended"
