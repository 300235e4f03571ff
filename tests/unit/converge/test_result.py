from dataclasses import replace

import pytest

from hermesops.converge import Converged, HostResult, TaskFailure
from hermesops.errors import PartlyDoneError, UnavailableError

DONE = HostResult("a", "done", 3, 0, ("x", "y"))
FAILED = HostResult("b", "failed", 1, 0, (), TaskFailure("role : task", "no", "because"))
DARK = HostResult("c", "unreachable", 0, 0, (), TaskFailure("task", "no route"))


def _converged(*hosts: HostResult) -> Converged:
    return Converged("instance", {host.host: host for host in hosts}, 1.0)


def test_done_is_done() -> None:
    result = _converged(DONE)
    result.require_ok()
    assert (result.ok, result.changed) == (True, 2)


def test_a_failed_host_is_named_with_its_task_and_reason() -> None:
    with pytest.raises(PartlyDoneError, match=r"1 of 2.*b: failed at 'role : task': no because"):
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
