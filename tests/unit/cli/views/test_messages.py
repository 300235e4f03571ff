"""What ``connector status`` shows: the counts of alerts, in words that runbooks wait for."""

import json

from hermesops.cli.views.messages import status_lines
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.figures import MessagingFigures, MessengerUsers
from hermesops.views.users.messages import status

ADA, BOB, CYD = map(InstanceId, ("ada", "bob", "cyd"))
FIGURES = MessagingFigures(
    unrouted=4,
    held=3,
    unanswered=2,
    answered=9,
    messengers=(MessengerUsers("slack", 5, 1, 2, 3), MessengerUsers("telegram", 40, 2, 8, 12, 7, 5, 6)),
    sockets={CYD: False, ADA: True, BOB: False},
    sessions={"discord": False},
)


def test_totals_come_first_and_each_messenger_has_a_line() -> None:
    lines = status_lines(FIGURES)
    assert lines[:10] == [
        "sockets         1 of 3 running agents",
        "not routed      4 accounts",
        "held            3 users",
        "no answer       2 users, 9 answered",
        "undelivered     15 users",
        "uncertain       7 users",
        "outside window  5 users",
        "token refused   6 users",
        "blocked         3 users within a day",
        "no session      discord",
    ]
    shown = "\n".join(lines)
    assert "telegram" in shown
    assert shown.index("bob") < shown.index("cyd"), "agents without a socket, in their order"


def test_one_is_no_plural() -> None:
    figures = MessagingFigures(1, 1, 1, 1, (MessengerUsers("slack", 1, 1, 1, 1, 1, 1, 1),), {ADA: True})
    assert status_lines(figures)[:10] == [
        "sockets         1 of 1 running agent",
        "not routed      1 account",
        "held            1 user",
        "no answer       1 user, 1 answered",
        "undelivered     1 user",
        "uncertain       1 user",
        "outside window  1 user",
        "token refused   1 user",
        "blocked         1 user within a day",
        "no session      none",
    ]


def test_nothing_in_use_is_said_so() -> None:
    shown = "\n".join(status_lines(MessagingFigures()))
    assert "no messenger is in use" in shown
    assert "no agent lacks a socket" in shown


def test_the_shape_has_ids_and_counts() -> None:
    shape = json.loads(json.dumps(status(FIGURES)))
    assert (shape["sockets"], shape["agents"], shape["without_socket"]) == (1, 3, ["bob", "cyd"])
    assert shape["messengers"][1] == {
        "messenger": "telegram",
        "linked": 40,
        "blocked": 2,
        "delivered": 8,
        "undelivered": 12,
        "uncertain": 7,
        "waiting": 5,
        "refused": 6,
    }
