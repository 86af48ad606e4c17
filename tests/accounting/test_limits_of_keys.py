"""Amounts of a key: each part is subtracted from its own."""

from toolbridge.accounting.limits_of_keys import MEASURES, Amounts


def test_the_difference_of_amounts_may_be_negative():
    found = Amounts(requests=1, tokens=50, dollars=7).less(
        Amounts(requests=1, tokens=80, dollars=3)
    )
    assert [found.of(what) for what in MEASURES] == [0, -30, 4]
