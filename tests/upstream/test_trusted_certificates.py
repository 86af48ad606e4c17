"""The variables with which OpenSSL finds authorities, and what is wrong with them."""

import os

from tests.certificates import Authority

from toolbridge.upstream.trusted_certificates import trust_faults


def test_without_the_variables_and_with_a_good_file_nothing_is_wrong(tmp_path):
    assert trust_faults({}) == []
    assert trust_faults({"SSL_CERT_FILE": "", "SSL_CERT_DIR": ""}) == []
    assert trust_faults({"SSL_CERT_FILE": str(Authority(tmp_path).file)}) == []


def test_a_file_without_certificates_is_named(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("no certificate")
    fault = f"`SSL_CERT_FILE` names {file}, which has no certificates in PEM format"
    assert trust_faults({"SSL_CERT_FILE": str(file)}) == [fault]


def test_a_file_that_does_not_exist_is_named(tmp_path):
    (fault,) = trust_faults({"SSL_CERT_FILE": str(tmp_path / "none")})
    assert fault.endswith("none, which cannot be read (No such file or directory)")


def test_each_folder_needs_names_that_are_hashes(tmp_path):
    good, bad, none = tmp_path / "good", tmp_path / "bad", tmp_path / "none"
    for folder, name in ((good, "0a1b2c3d.0"), (bad, "root.pem")):
        folder.mkdir()
        (folder / name).touch()
    found = trust_faults({"SSL_CERT_DIR": os.pathsep.join(map(str, (good, bad, none)))})
    assert len(found) == 2
    assert f"`SSL_CERT_DIR` names {bad}, which has no certificate under" in found[0]
    assert f"`SSL_CERT_DIR` names {none}, which cannot be read (No such file" in found[1]
