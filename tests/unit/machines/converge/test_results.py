from dataclasses import replace

import pytest

from hermesops.errors import PartlyDoneError, UnavailableError
from hermesops.machines.converge.results import HIDDEN, Converged, EventFold, HostResult, TaskFailure

DONE = HostResult("a", "done", 3, 0, ("x", "y"))
FAILED = HostResult("b", "failed", 1, 0, (), TaskFailure("role : task", "no", "because"))
DARK = HostResult("c", "unreachable", 0, 0, (), TaskFailure("task", "no route"))


def _converged(*hosts: HostResult) -> Converged:
    return Converged("instance", {host.host: host for host in hosts}, 1.0)


def test_done_is_done() -> None:
    result = _converged(DONE)
    result.require_ok()
    assert (result.ok, result.changed) == (True, ("x", "y"))


def test_a_failed_host_is_named_with_its_task_and_reason() -> None:
    with pytest.raises(PartlyDoneError, match=r"1 of 2.*b: step 'role : task' failed: no because"):
        _converged(DONE, FAILED).require_ok()


def test_where_nobody_was_reached_nothing_changed() -> None:
    with pytest.raises(UnavailableError, match="no route"):
        _converged(DARK).require_ok()


def test_where_a_host_changed_before_it_was_lost_it_is_partly_done() -> None:
    with pytest.raises(PartlyDoneError, match="c: unreachable at 'task': no route"):
        _converged(replace(DARK, changed=("x",))).require_ok()


def test_where_some_were_reached_it_is_partly_done() -> None:
    with pytest.raises(PartlyDoneError, match=r"1 of 2.*c: unreachable at 'task': no route"):
        _converged(DONE, DARK).require_ok()


def _event(kind: str, **data: object) -> dict[str, object]:
    return {"event": kind, "event_data": data}


def _on(kind: str, task: str = "t", host: str = "edge", **data: object) -> dict[str, object]:
    result = data.pop("res", {})
    return _event(f"runner_on_{kind}", host=host, task=task, res=result, **data)


def _folded(*events: dict[str, object], failures: tuple[str, ...] = (), dark: tuple[str, ...] = ()) -> HostResult:
    fold = EventFold(("edge",))
    for event in events:
        fold.take(event)
    fold.take(_event("playbook_on_stats", failures=dict.fromkeys(failures, 1), dark=dict.fromkeys(dark, 1)))
    return fold.results()["edge"]


def test_what_changed_is_listed_with_its_role() -> None:
    result = _folded(
        _on("ok", "look"),
        _on("ok", "write", role="hermes_base", res={"changed": True}),
        _on("skipped", "not here"),
    )
    assert result == HostResult("edge", "done", ok=2, skipped=1, changed=("hermes_base : write",))


def test_what_changed_of_units_is_named() -> None:
    steps = ["a.service restart", "b.service\x1b[31m start", *(f"u{number}.service stop" for number in range(30))]
    result = _folded(
        _on("ok", "start", res={"changed": True, "changed_units": steps[:2]}),
        _on("ok", "many", res={"changed": True, "changed_units": steps}),
        _on("ok", "odd", res={"changed": True, "changed_units": {"a": 1}}),
    )
    first, many, odd = result.changed
    assert first == "start (a.service restart, b.service\\x1b[31m start)"
    assert many.endswith("u17.service stop, …)")
    assert odd == "odd"


def test_tasks_with_secrets_that_changed_something_are_counted() -> None:
    """Ansible tells nothing of a task with ``no_log``; its counts at the end have it."""
    fold = EventFold(("edge", "other"))
    fold.take(_on("ok", "write", res={"changed": True}))
    fold.take(_on("ok", "hand over keys", res={"censored": "the output has been hidden"}))
    fold.take(_event("playbook_on_stats", failures={}, dark={}, changed={"edge": 3}))
    results = fold.results()
    assert results["edge"].changed == ("write", HIDDEN, HIDDEN)
    assert results["other"].changed == ()


def test_a_failure_names_task_message_and_error_output() -> None:
    result = _folded(
        _on(
            "failed",
            "install",
            role="hermes_gateway",
            res={"msg": "non-zero return code", "rc": 1, "stderr": "no space\n"},
        ),
        failures=("edge",),
    )
    assert result.status == "failed"
    assert result.failure == TaskFailure("hermes_gateway : install", "non-zero return code", "no space")


def test_of_long_error_output_the_end_is_told() -> None:
    result = _folded(_on("failed", res={"msg": "x", "stderr": f"{'begin ' * 1000}end"}), failures=("edge",))
    assert result.failure is not None
    assert result.failure.stderr.endswith("begin end")
    assert len(result.failure.stderr) <= 2000


def test_a_failed_loop_tells_of_its_item() -> None:
    items = [{"failed": False, "msg": "fine"}, {"failed": True, "msg": "this one"}]
    result = _folded(_on("failed", res={"msg": "One or more items failed", "results": items}), failures=("edge",))
    assert result.failure == TaskFailure("t", "this one")


def test_a_secret_task_tells_nothing() -> None:
    result = _folded(_on("failed", res={"censored": "hidden", "msg": "CANARY"}), failures=("edge",))
    assert "CANARY" not in str(result)
    assert result.failure is not None
    assert "no_log" in result.failure.message


def test_an_ignored_failure_is_none() -> None:
    assert _folded(_on("failed", ignore_errors=True, res={"msg": "x"})).status == "done"


def test_a_rescued_failure_is_none() -> None:
    assert _folded(_on("failed", res={"msg": "x"}), _on("ok", "rescue")).status == "done"


def test_unreachable_is_not_failed() -> None:
    result = _folded(_on("unreachable", res={"msg": "no route"}), dark=("edge",))
    assert (result.status, result.failure) == ("unreachable", TaskFailure("t", "no route"))


def test_a_host_no_task_ran_on_is_not_done() -> None:
    assert _folded().status == "failed"


def test_a_run_that_was_cut_short_left_its_hosts_halfway() -> None:
    fold = EventFold(("edge",))
    fold.take(_on("ok"))
    assert fold.results()["edge"].status == "failed"


def test_other_hosts_and_events_are_passed_over() -> None:
    assert _folded(_on("ok", host="stranger"), _event("verbose"), {"event": "x"}, _on("ok")).ok == 1


def test_tasks_are_told_as_they_start() -> None:
    reports: list[str] = []
    fold = EventFold(("edge",), reports.append)
    fold.take(_event("playbook_on_task_start", task="write", role="hermes_base"))
    fold.take(_event("playbook_on_task_start", task="look"))
    assert reports == ["hermes_base : write", "look"]


def test_the_check_of_a_roles_arguments_which_ansible_adds_is_not_told() -> None:
    reports: list[str] = []
    fold = EventFold(("edge",), reports.append)
    task = "Validating arguments against arg spec 'main' - Configures the base system"
    for action in ("ansible.builtin.validate_argument_spec", "validate_argument_spec"):
        fold.take(_event("playbook_on_task_start", task=task, role="hermes_base", task_action=action))
    fold.take(_event("playbook_on_task_start", task="write", role="hermes_base", task_action="ansible.builtin.copy"))
    assert reports == ["hermes_base : write"]
