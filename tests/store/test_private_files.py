"""Files that only their owner may read, whatever the umask says."""

import os
import stat

import pytest

from toolbridge.store import private_files


@pytest.fixture(autouse=True)
def permissive():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_and_those_above_it_are_the_owners(tmp_path):
    private_files.make_folder(tmp_path / "a" / "b")
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700


def test_a_folder_that_is_too_open_is_tightened_and_those_above_it_are_left(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "a").mkdir(mode=0o777)
    private_files.make_folder(tmp_path / "a")
    assert (mode(tmp_path / "a"), mode(tmp_path)) == (0o700, 0o755)


@pytest.mark.parametrize("before", [None, 0o666, 0o644, 0o600])
def test_a_log_is_the_owners_before_a_byte_is_written(tmp_path, before):
    file = tmp_path / "log"
    if before is not None:
        file.write_bytes(b"old ")
        file.chmod(before)
    with os.fdopen(private_files.open_to_append(file), "ab") as log:
        assert mode(file) == 0o600
        log.write(b"new")
    assert file.read_bytes() == (b"new" if before is None else b"old new")


@pytest.mark.parametrize("before", [None, 0o666, 0o600])
def test_a_file_is_replaced_whole_by_one_of_the_owners(tmp_path, before):
    file = tmp_path / "state"
    if before is not None:
        file.write_bytes(b"old")
        file.chmod(before)
    private_files.write(file, b"new")
    assert (file.read_bytes(), mode(file)) == (b"new", 0o600)
    assert [at.name for at in tmp_path.iterdir()] == ["state"]


def test_who_reads_a_file_while_it_is_replaced_has_the_old_one(tmp_path):
    file = tmp_path / "state"
    file.write_bytes(b"old")
    with file.open("rb") as reader:
        private_files.write(file, b"new")
        assert reader.read() == b"old"


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").write_bytes(b"old")
    (tmp_path / "here").symlink_to(tmp_path / "there")
    private_files.write(tmp_path / "here", b"new")
    assert (tmp_path / "here").is_symlink()
    assert (tmp_path / "there").read_bytes() == b"new"


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "state").mkdir()
    with pytest.raises(OSError):
        private_files.write(tmp_path / "state", b"new")
    assert [at.name for at in tmp_path.iterdir()] == ["state"]
