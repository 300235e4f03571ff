"""Runs several things at once, none of which may take longer than allowed; one that hangs costs the others nothing."""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

Call = Callable[[], Any]


def in_time(calls: Mapping[str, Call], /, *, deadline_s: float) -> dict[str, Any]:
    """Run calls in parallel; return each call's result or exception. Calls that miss the deadline are left out.

    Such a call goes on, but does not keep the process from ending, even where it hangs in the kernel.
    """
    done: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    for name, call in calls.items():
        threading.Thread(target=lambda name=name, call=call: done.put((name, outcome(call))), daemon=True).start()
    until = time.monotonic() + deadline_s
    ended: dict[str, Any] = {}
    while len(ended) < len(calls):
        try:
            name, result = done.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        ended[name] = result
    return ended


def outcome(call: Call) -> object:
    """The result of a call, or the exception that it raises."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whatever it meets, the others go on
        return error
