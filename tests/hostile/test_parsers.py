"""Parsers of what others send: any text ends as a value or as the one error that is ours."""

import json
from collections.abc import Callable
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.agents.health.samples.sample import HealthSample
from hermesops.errors import UnavailableError
from hermesops.model.fleet.slot import SlotsState
from hermesops.vendor.channel import Completed, last_words, object_in, understood
from hermesops.wire import foreign_text, strict_json
from tests.support.hostile.parsers import JSON, PARSERS, Outcomes
from tests.support.suite.cases import each_case
from tests.support.suite.shard import shard

CASES = 30
"""Documents for each parser of the table; ``tests/soak`` tries ten thousand."""

ANYTHING = st.binary() | st.text() | JSON.map(json.dumps)


@each_case("name", PARSERS)
def test_whatever_comes_is_a_value_or_an_error_of_ours_and_cheap(name: str) -> None:
    outcomes = PARSERS[name].fuzz(CASES, number=shard())
    assert sum(outcomes.ends.values()) >= CASES // 2


FOUND = {
    "settings_file": b"cell_size = " + b"7" * 5_001,
    "settings_file of 200 kB": b"region = '" + b"x" * 200_000 + b"'",
    "instance_settings_file": b'{"personality": "' + b"x " * 150_000 + b'"}',
    "pulumi_state": b'{"version":3,"checkpoint":{"latest":{"secrets_providers":{"type":[]}}}}',
    "pulumi_state whose list is a number": b'{"version":3,"checkpoint":{"latest":{"resources":0.0}}}',
    "pulumi_state with a name of no name": (
        b'{"version":3,"checkpoint":{"latest":{"pending_operations":[{"type":"creating","resource":'
        b'{"urn":"urn:pulumi:local-cell1::hermes-cells::","type":""}}]}}}'
    ),
}


@each_case("name", FOUND)
def test_what_fuzzing_found_once_is_refused(name: str) -> None:
    assert PARSERS[name.split(maxsplit=1)[0]].case(FOUND[name], Outcomes()) != "taken"


def message_of(read: Callable[[], object]) -> str:
    """Why an answer was not believed; empty where it was."""
    try:
        read()
    except UnavailableError as error:
        return error.message
    return ""


@given(ANYTHING)
def test_json_is_a_value_or_malformed(text: bytes | str) -> None:
    try:
        value = strict_json.parse(text, largest=10_000)
    except strict_json.MalformedJSONError:
        return
    assert all(isfinite(number) for number in _numbers(value))
    assert repr(value).isascii() or json.dumps(value, ensure_ascii=False).encode()


def test_a_whole_character_may_be_spelled_in_halves() -> None:
    assert strict_json.parse(rb'["\ud83e\udd89"]') == ["\U0001f989"]


def _numbers(value: object) -> list[float]:
    if isinstance(value, dict | list):
        return [number for part in (value.values() if isinstance(value, dict) else value) for number in _numbers(part)]
    return [value] if isinstance(value, int | float) else []


@each_case(
    ("text", "why"),
    [
        ("[1e400]", "exceeds the range of a float"),
        ("NaN", "NaN"),
        ("[-Infinity]", "Infinity"),
        (r'["\ud800"]', "half of a character"),
        (r'{"a": {"\uDEAD\ud83e": 1}}', "half of a character"),
        ("\ud800", "not JSON"),
        ('"ü"'.encode("utf-16"), "not JSON"),
        ('{"a": 1, "a": 2}', "twice"),
        ("9" * 30, "64 bits"),
        ("[" * 40 + "]" * 40, "deeper than 32"),
        ("[" * 100_000, "deeper than 32"),
        ("{} {}", "not JSON"),
        (b"\xff", "not JSON"),
        (" " * 2_000_000, "larger than 1048576"),
    ],
)
def test_what_is_strange_is_refused_by_its_name(text: bytes | str, why: str) -> None:
    with pytest.raises(strict_json.MalformedJSONError, match=why):
        strict_json.parse(text)


def test_what_is_not_is_read() -> None:
    assert strict_json.parse(b'{"a": [1, -2.5e3, "\\u00fc", null, true]}') == {"a": [1, -2500.0, "ü", None, True]}
    assert strict_json.parse(str(-(2**63))) == -(2**63)
    assert strict_json.parse("[" * 31 + "1" + "]" * 31)
    with pytest.raises(strict_json.MalformedJSONError, match="not an object"):
        strict_json.parse_object("[]")


@given(st.text(alphabet=st.characters()), st.integers(1, 400))
def test_foreign_text_is_one_printable_line(text: str, longest: int) -> None:
    line = foreign_text.one_line(text, longest=longest)
    assert line.isprintable()
    assert len(line) <= longest + 1
    assert foreign_text.unbroken(text).isprintable()
    quotation = foreign_text.quoted(text, longest=longest)
    assert (quotation[0], quotation[-1]) == ("“", "”")
    assert not {"“", "”"} & set(quotation[1:-1])


@given(ANYTHING, st.integers(0, 255))
def test_an_answer_of_hermes_node_is_an_object_or_names_the_machine(text: bytes | str, code: int) -> None:
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    done = Completed(code, data, data)
    assert last_words(done).isprintable()
    message = message_of(lambda: object_in(done, "m1", "status"))
    assert not message or message.startswith("machine m1 sent a malformed answer to status")


@given(ANYTHING)
def test_a_probe_is_a_reading_or_unavailable(text: bytes | str) -> None:
    assert message_of(lambda: HealthSample.from_json(text)).isprintable()


READING = {
    "at": 1.0,
    "since": None,
    "release": "r",
    "gateway": "ok",
    "restarts": 0,
    "errors": None,
    "memory_bytes": 1,
    "queue_age_s": 0.0,
    "turn": None,
}


@given(st.sampled_from(sorted(READING)), JSON)
def test_a_probe_with_a_strange_part_is_a_reading_or_unavailable(name: str, value: object) -> None:
    assert message_of(lambda: HealthSample.from_json(json.dumps({**READING, name: value}))).isprintable()


@given(JSON, JSON)
def test_releases_of_a_machine_are_read_or_of_another_shape(releases: object, busy: object) -> None:
    done = Completed(0, json.dumps({"releases": releases, "busy": busy}).encode(), b"")

    def read() -> SlotsState:
        with understood("m1", "status"):
            return SlotsState.from_status(object_in(done, "m1", "status"))

    message = message_of(read)
    assert not message or "m1" in message
