import threading
import time

from hermesops.programs.node.system.parallel import in_time


def test_each_call_has_its_result_or_its_error() -> None:
    def fails() -> None:
        raise RuntimeError("why")

    ended = in_time({"good": lambda: 7, "bad": fails}, deadline_s=10)
    assert ended["good"] == 7
    assert isinstance(ended["bad"], RuntimeError)


def test_one_that_hangs_has_none_and_holds_up_nobody() -> None:
    release = threading.Event()
    begun = time.monotonic()
    ended = in_time({"slow": release.wait, "good": lambda: 7}, deadline_s=0.3)
    assert ended == {"good": 7}
    assert time.monotonic() - begun < 10
    release.set()


def test_they_run_beside_each_other() -> None:
    barrier = threading.Barrier(3, timeout=10)
    assert set(in_time(dict.fromkeys("abc", barrier.wait), deadline_s=10)) == {"a", "b", "c"}


def test_nothing_to_do_ends_at_once() -> None:
    assert in_time({}, deadline_s=10) == {}
