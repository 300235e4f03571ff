"""A list of users is read as editors and spreadsheets write it."""

import pytest

from hermesops.agents.instances.requests.bulk import ProvisionRequest, parse_requests
from hermesops.errors import UsageError
from hermesops.model.plan import Plan

BOTH = (("ada", Plan.HEAVY, "nbg1"), ("bob", Plan.LIGHT, "hel1"))


def read(text: str) -> tuple[ProvisionRequest, ...]:
    return parse_requests(text, plan="light", region="hel1")


def test_a_table_is_read_as_programs_write_it() -> None:
    for text in (
        "user,plan,region\nada,heavy,nbg1\nbob,,\n",
        "plan,user,region\nheavy,ada,nbg1\n,bob\n",
        "User, Plan ,REGION\nada,heavy,nbg1\nbob\n",
        "user,plan,region,,\nada,heavy,nbg1,,\n,,,,\nbob,,,,\n",
        "user;plan;region\nada;heavy;nbg1\nbob;;\n",
        "user\tplan\tregion\r\nada\theavy\tnbg1\r\nbob\t\t\r\n",
        '"user","plan","region"\n"ada","heavy","nbg1"\n"bob","",""\n',
    ):
        assert (
            tuple(
                (provision_request.user, provision_request.plan, provision_request.region)
                for provision_request in read(text)
            )
            == BOTH
        ), text


def test_a_plain_list_has_no_heading() -> None:
    for text in ("ada\nbob\n", "ada,\nbob,\n", "plan\nregion\n"):
        assert [provision_request.user for provision_request in read(text)] == [
            line.strip(",") for line in text.split()
        ], text


def test_a_wrong_list_is_named_for_what_is_wrong() -> None:
    for text, words in (
        ("user\n", "nothing to provision.*line 1 was read as the heading"),
        ("\n# all\nuser\n", "line 3 was read as the heading"),
        ("email,user,plan\na@b,ada,light\n", "unknown columns email: line 1 is the heading"),
        ("user,,plan\nada,,light\n", r"unknown columns \(one without a name\)"),
        ("plan,region\nlight,hel1\n", "user among them"),
        ("user,user\nada,ada\n", "each once"),
        ("user\nada;light\n", "line 2: 'ada;light'"),
    ):
        with pytest.raises(UsageError, match=words):
            read(text)
