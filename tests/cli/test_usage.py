"""The sentences of `toolbridge usage`."""

import pytest
from tests.commands import run_command
from tests.tables import every_row

from toolbridge.cli import usage
from toolbridge.store.ledger import UsageTotal


@every_row(
    ("given", "words"),
    [
        ((), "in the last 30 days in "),
        (("--since", "1h"), "in the last hour in "),
        (("--since", "4w"), "in the last 4 weeks in "),
        (("--since", "90m"), "in the last 90 minutes in "),
        (("--since", "2026-01-31"), "since 2026-01-31 in "),
    ],
)
def test_without_requests_the_period_is_named(env, given, words):
    done = run_command(env, "usage", *given)
    assert (done.returncode, f"there are no requests {words}" in done.stdout.decode()) == (0, True)


@pytest.mark.parametrize(
    ("count", "words"), [(1, "~ 1 request has estimated"), (2, "~ 2 requests have estimated")]
)
def test_estimated_requests_are_counted_in_words(count, words, capsys):
    zeros = {name: 0 for name in UsageTotal.__struct_fields__ if name != "group"}
    usage._print_notes([UsageTotal("m", **zeros | {"estimated": count})])
    assert words in capsys.readouterr().out


def test_a_state_directory_that_cannot_be_read_is_an_error(env, tmp_path):
    (tmp_path / "file").write_text("")
    done = run_command(env | {"XDG_STATE_HOME": str(tmp_path / "file")}, "usage")
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"the ledger cannot be read: {tmp_path}/file/".encode() in done.stderr
