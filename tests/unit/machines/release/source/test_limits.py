"""The refusal of a stranger's program names the limit that it reached, and the next step."""

import re

import pytest

from hermesops.machines.release.source.limits import Ending, Limits, refusal
from tests.support.suite.cases import each_case

MIB = 1 << 20
LIMITS = Limits(memory_bytes=512 * MIB)
FAILED, COUNTED = Ending(1), Ending(1, counted_bytes=256 * MIB)
HASH = "compare the SHA-256 with the one that upstream publishes"


@each_case(
    ("ending", "messages", "named"),
    [
        (Ending(None), "", r"did not end within 600 s and was stopped"),
        (Ending(0, 2, counted_bytes=256 * MIB), "", r"used more than 256 MiB of memory and was stopped"),
        (FAILED, "Traceback\nMemoryError\n", r"failed at its limit of 512 MiB of memory: MemoryError"),
        (FAILED, "memory allocation of 9 bytes failed", r"failed at its limit of 512 MiB of memory: memory allocation"),
        (
            FAILED,
            "BlockingIOError: [Errno 11] Resource temporarily unavailable",
            r"at its limit of 64 processes: Block",
        ),
        (FAILED, "RuntimeError: can't start new thread", r"failed at its limit of 64 processes: RuntimeError"),
        (
            FAILED,
            "OSError: [Errno 27] File too large",
            r"at its limits of 256 MiB a file and 2048 MiB of files: OSError",
        ),
        (FAILED, "OSError: [Errno 28] No space left on device", r"256 MiB a file and 2048 MiB of files: OSError"),
    ],
)
def test_a_limit_that_was_reached_is_named_with_the_next_step(ending: Ending, messages: str, named: str) -> None:
    error = refusal("the build", ending, messages, LIMITS)
    assert re.search(named, error.message)
    assert error.message.startswith("the build ")
    assert HASH in str(error.hint)
    assert not ending.is_good


@each_case(
    ("ending", "messages", "named"),
    [
        (COUNTED, "MemoryError", "the build failed: MemoryError"),
        (FAILED, "MemoryError\nValueError: no version", "the build failed: ValueError: no version"),
        (FAILED, "", "the build failed: no reason given"),
        (Ending(1, is_started=False), "Access denied", "systemd starts no unit around a build here: Access denied"),
        (
            FAILED,
            "bwrap: No permissions",
            "this computer does not allow the walls around a build: bwrap: No permissions",
        ),
    ],
)
def test_no_limit_is_named_that_was_not_reached(ending: Ending, messages: str, named: str) -> None:
    assert refusal("the build", ending, messages, LIMITS).message == named


@pytest.mark.parametrize("ending", [Ending(0), Ending(0, counted_bytes=MIB)])
def test_a_program_that_succeeds_within_its_limits_is_good(ending: Ending) -> None:
    assert ending.is_good
