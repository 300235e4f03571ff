"""Notifications with the production network: real names, addresses and TLS, in a network namespace."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.network.pretended_internet import HOSTNAME, PRIVATE, PUBLIC
from tests.support.suite.cases import each_case
from tests.support.suite.prerequisites import require

NOT_PUBLIC = "the host has an address that is none of the internet"
REQUEST = f"POST /task?of=ada HTTP/1.1 host: {HOSTNAME}"


@pytest.fixture(scope="module")
def happened(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    require(os.geteuid() == 0, "root")
    folder = tmp_path_factory.mktemp("internet")
    program = [sys.executable, "-m", "tests.support.network.pretended_internet", str(folder)]
    words = ["unshare", "--net", "--mount", *program]
    root = Path(__file__).parents[3]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads((folder / "happened.json").read_text()))


@each_case("what", ["taken", "taken by IPv6"])
def test_a_host_of_the_internet_takes_a_notification(happened: dict[str, Any], what: str) -> None:
    assert happened[what]["outcome"] is True
    assert happened[what]["reached"] == {"public": [REQUEST]}


def test_a_name_that_changes_is_asked_once_and_the_judged_address_is_reached(happened: dict[str, Any]) -> None:
    rebound = happened["rebound"]
    assert (rebound["outcome"], rebound["looks"], rebound["opened"]) == (True, 1, ["public"])


@each_case("what", ["private", "metadata", "both", "own"])
def test_an_address_that_is_none_of_the_internet_gets_no_connection(happened: dict[str, Any], what: str) -> None:
    assert (happened[what]["outcome"], happened[what]["opened"]) == (NOT_PUBLIC, [])


@each_case("what", ["no address", "another name", "unknown authority"])
def test_a_host_that_cannot_be_known_gets_no_request(happened: dict[str, Any], what: str) -> None:
    assert (happened[what]["outcome"], happened[what]["reached"]) == (False, {})


@each_case("place", [f"https://{PRIVATE}/", f"http://{PUBLIC}/", f"https://{HOSTNAME}/again"])
def test_no_redirect_is_followed(happened: dict[str, Any], place: str) -> None:
    redirected = happened[f"redirect to {place}"]
    assert (redirected["outcome"], redirected["reached"]) == (False, {"public": [REQUEST]})


@each_case("what", ["silence", "endless head", "slow head"])
def test_a_host_that_comes_to_no_end_is_left(happened: dict[str, Any], what: str) -> None:
    assert happened[what]["outcome"] is False
    assert happened[what]["seconds"] < 5
