"""What a request at the gate costs others: who is refused is not read, and nobody waits while another one is read."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from hermesops.programs.ingest.log_share import LogShares
from hermesops.programs.ingest.nginx import Nginx
from hermesops.programs.ingest.remote_write import encode_labels, encode_sample, encode_series
from hermesops.programs.ingest.senders import Identity, Limits, Senders
from hermesops.programs.ingest.server import Gate, HostFigures

ADA, MALLORY = Identity("m-1", "i-1", "cell1"), Identity("m-2", "i-2", "cell1")
_WAITS_S = 60.0


def taken_by_prometheus(_: bytes) -> tuple[int, str]:
    return HTTPStatus.NO_CONTENT, ""


def gate_of(limits: Limits, write: Callable[[bytes], tuple[int, str]] = taken_by_prometheus) -> Gate:
    """One whose bodies are not compressed."""
    figures, logs = HostFigures(Nginx(1, Path("/nonexistent")), None), LogShares(1, 1, time.monotonic)
    return Gate(Senders(limits), write, lambda block, _: block, figures, logs)


class Body:
    """A body; counts how often it was read, and may hold up who reads it."""

    def __init__(self, samples: int = 1, *, held: threading.Event | None = None) -> None:
        at = int(time.time() * 1000)
        labels = encode_labels([(b"__name__", b"hermes_metrics_timestamp_seconds")])
        self.reads = 0
        self.begun = threading.Event()
        self._data, self._held = encode_series(labels, [encode_sample(at / 1000, at)] * samples), held

    def __call__(self) -> bytes:
        self.reads += 1
        self.begun.set()
        if self._held:
            assert self._held.wait(_WAITS_S)
        return self._data


@contextmanager
def held_up(gate: Gate, who: Identity, requests: int) -> Iterator[None]:
    """So many requests of a sender that are being read, until the block ends."""
    held = threading.Event()
    bodies = [Body(held=held) for _ in range(requests)]
    threads = [threading.Thread(target=gate.take, args=("/write", who, body)) for body in bodies]
    for thread in threads:
        thread.start()
    try:
        assert all(body.begun.wait(_WAITS_S) for body in bodies)
        yield
    finally:
        held.set()
        for thread in threads:
            thread.join(_WAITS_S)


def test_who_has_used_up_its_samples_is_refused_unread_and_others_are_not() -> None:
    gate = gate_of(
        Limits(samples_per_s=1, behind_s=60, work_per_s=60, work_s=60)
    )  # the work of 5,000 is no matter here
    assert gate.take("/write", MALLORY, Body(samples=5000))[0] == HTTPStatus.NO_CONTENT
    refused = Body()
    for _ in range(10):
        assert gate.take("/write", MALLORY, refused) == (429, "more samples than one sender may")
    assert refused.reads == 0
    assert gate.take("/write", ADA, Body())[0] == HTTPStatus.NO_CONTENT
    text = gate.metrics()
    assert 'hermes_platform_ingest_refused_total{why="samples"} 10\n' in text
    assert 'hermes_platform_ingest_sender_refused_total{instance_id="i-2",cell="cell1",machine="m-2"} 10\n' in text, (
        "an operator sees who it is"
    )


def test_what_cannot_be_read_is_paid_for_as_well() -> None:
    gate = gate_of(Limits(work_per_s=0, work_s=1e-9))
    assert gate.take("/write", MALLORY, lambda: b"\xff" * 1000)[0] == HTTPStatus.BAD_REQUEST
    assert gate.take("/write", MALLORY, Body()) == (429, "more work than one sender may")


def test_nobody_waits_while_another_one_is_read() -> None:
    gate = gate_of(Limits())
    with held_up(gate, MALLORY, 2):
        assert gate.take("/write", ADA, Body())[0] == HTTPStatus.NO_CONTENT
        assert 'instance_id="i-1"' in gate.heartbeats()
        assert gate.take("/write", MALLORY, Body()) == (429, "more requests than one sender may")
    assert gate.take("/write", MALLORY, Body())[0] == HTTPStatus.NO_CONTENT


def test_a_heartbeat_is_known_though_prometheus_does_not_take_it() -> None:
    gate = gate_of(Limits(), lambda _: (503, "busy"))
    assert gate.take("/write", ADA, Body())[0] == HTTPStatus.SERVICE_UNAVAILABLE
    assert 'hermes_platform_heartbeat_timestamp_seconds{instance_id="i-1",cell="cell1",machine="m-1"} ' in (
        gate.heartbeats()
    )


def test_a_certificate_opens_its_own_path_alone() -> None:
    gate, unread = gate_of(Limits()), Body()
    for path, who in (("/import", ADA), ("/write", Identity(source="web")), ("/", ADA), ("/write", Identity())):
        assert gate.take(path, who, unread)[0] == HTTPStatus.FORBIDDEN
    assert unread.reads == 0
