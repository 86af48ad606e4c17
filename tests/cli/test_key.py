"""`toolbridge key` where the keys cannot be read or written."""

import pytest
from tests.commands import run_command


@pytest.fixture
def broken(env, tmp_path):
    """An environment whose state directory is below a file."""
    (tmp_path / "file").write_text("")
    return env | {"XDG_STATE_HOME": str(tmp_path / "file")}


@pytest.mark.parametrize("words", [("create", "a"), ("list",), ("show", "a"), ("revoke", "a")])
def test_a_state_directory_that_cannot_be_used_is_named_and_no_key_is_shown(
    broken, tmp_path, words
):
    status, out, err = run_command(broken, "key", *words)
    assert (status, out) == (1, b"")
    assert f"the state directory {tmp_path}/file/toolbridge cannot be used".encode() in err
    assert b"set XDG_STATE_HOME" in err


def test_a_key_that_was_shown_and_not_stored_is_said_to_be_invalid(env, tmp_path):
    state = tmp_path / "state" / "toolbridge"
    state.mkdir(parents=True)
    (state / "keys.created").symlink_to(tmp_path / "none" / "none")
    status, out, err = run_command(env, "key", "create", "a")
    assert (status, out.startswith(b"tbk_")) == (1, True)
    assert b"the key 'a' was not stored and is not valid" in err


def test_without_a_file_of_keys_there_are_none_and_nothing_is_created(env, tmp_path):
    status, out, _ = run_command(env, "key", "list")
    assert (status, out.startswith(b"there are no keys")) == (0, True)
    assert not (tmp_path / "state").exists()
