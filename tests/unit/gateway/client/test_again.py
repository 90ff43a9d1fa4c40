"""What is worth another try, and when."""

from __future__ import annotations

from tidegate.gateway.client.again import MOST_SECONDS, PAIRING_SECONDS, Patience
from tidegate.gateway.client.errors import (
    BadAddress,
    ClientError,
    Denied,
    NotAGateway,
    NotPaired,
    RateLimited,
    TlsFailed,
    Unreachable,
    WrongSecret,
)


def test_a_break_is_tried_again_later_and_later_but_never_very_late():
    patience = Patience()
    waits = [patience.seconds(Unreachable("away")) for _ in range(200)]
    assert all(wait is not None and 0 < wait <= MOST_SECONDS for wait in waits)
    assert max(filter(None, waits[:2])) <= 1.0
    assert max(filter(None, waits)) > 5.0
    patience.reset()
    assert (patience.seconds(Unreachable("away")) or 99) <= 0.5


def test_what_only_a_person_can_help_is_not_tried_again():
    for error in (
        NotAGateway("x"),
        TlsFailed("x"),
        BadAddress("x"),
        Denied("x"),
        WrongSecret("x", "c"),
        ClientError("x"),
    ):
        assert Patience().seconds(error) is None


def test_a_limit_says_how_long_to_wait():
    assert Patience().seconds(RateLimited("x", 42)) == 42


def test_pairing_is_waited_for_only_where_somebody_sees_so():
    error = NotPaired("x", "r", "not-paired", "tidegate devices approve r")
    assert Patience().seconds(error) is None
    assert Patience(waits_for_pairing=True).seconds(error) == PAIRING_SECONDS
