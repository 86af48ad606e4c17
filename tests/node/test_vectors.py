"""The vector file passes whole, and a single wrong value in it does not."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from toolbridge.node.vectors.__main__ import KINDS, check_file, main

FILE = Path(__file__).parent / "vectors.json"
VECTORS = json.loads(FILE.read_text("utf-8"))

WRONG = [
    ("identities", "host", "public_compressed"),
    ("identities", "eph1", "address_eip55"),
    ("ecdh_hkdf", 0, "shared_x"),
    ("ecdh_hkdf", 2, "derived_key"),
    ("session_init", 0, "sdk_digest"),
    ("session_init", 0, "sdk_message", "payload", "ciphertextHex"),
    ("session_init", 1, "sdk_message", "payload", "signatureHex"),
    ("session_init", 1, "node_style_signature65"),
    ("session_init", 1, "nonce"),
    ("encrypted_message", 0, "payload", "ciphertextHex"),
    ("encrypted_message", 1, "payload", "aadHex"),
    ("encrypted_chunk", 3, "message", "payload", "ciphertextHex"),
    ("encrypted_chunk", 3, "message", "payload", "aadHex"),
    ("encrypted_response", 1, "message", "payload", "nonceHex"),
    ("host_key_challenge", "signature64"),
    ("host_key_challenge", "host_address"),
    ("sdk_privatekey_identity", "encryption_private"),
    ("encryption_key_from_seed", 0, "ws_client_address"),
    ("published", "eip55", 0),
    ("published", "node_e2ee_v1_cross_runtime", "digest_with_aad"),
    ("published", "fc1_session_auth_digest", "keccak256"),
    ("model_ids", 1, "model_id"),
    ("host_scoring", 2, "scores", "cheapest"),
    ("abi", "topics", "JobMarketplace", "SessionCompleted(uint256,uint256,uint256,uint256)"),
    ("sdk_transcript", "frames", 7, "msg", "payload", "ciphertextHex"),
    ("sdk_transcript", "frames", 9, "msg", "payload", "aadHex"),
    ("sdk_transcript", "frames", 5, "msg", "prompt"),
    ("node_prompt_flattening", "examples", 5, "out"),
    ("node_prompt_flattening", "patterns_in_order", 1, "delete", 0),
]


def check(tmp_path, vectors):
    path = tmp_path / "vectors.json"
    path.write_text(json.dumps(vectors), "utf-8")
    return check_file(path)


def spoiled(value):
    """Return `value` with its last digit or letter changed."""
    if not isinstance(value, str):
        return value + 0.25
    swaps = {"0": "1", "a": "b", "A": "B"}
    return value[:-1] + swaps.get(value[-1], "0" if value[-1].isdigit() else "a")


@pytest.mark.req("CB-20")
def test_every_vector_passes():
    passed, wrong = check_file(FILE)
    assert wrong == []
    assert passed > 250


def test_every_kind_of_the_file_is_known():
    assert set(VECTORS) - {"_about"} == set(KINDS)


@pytest.mark.parametrize("path", WRONG, ids=lambda path: ".".join(map(str, path)))
def test_a_wrong_value_is_noticed(tmp_path, path):
    vectors = {path[0]: copy.deepcopy(VECTORS[path[0]])}
    inside = vectors
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = spoiled(inside[path[-1]])
    _, wrong = check(tmp_path, vectors)
    assert wrong


def test_a_piece_that_should_be_refused_and_opens_is_a_failure(tmp_path):
    good = VECTORS["encrypted_message"][0]
    _, wrong = check(tmp_path, {"must_fail": [good]})
    assert len(wrong) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"payload": {"ciphertextHex": "zz", "nonceHex": "00" * 24, "aadHex": ""}},
        {"payload": {"ciphertextHex": "00" * 20, "nonceHex": "00" * 24}},
        {"message": VECTORS["encrypted_chunk"][0]["message"] | {
            "payload": VECTORS["encrypted_chunk"][0]["message"]["payload"] | {"index": 1}}},
    ],
    ids=["no hex", "no label", "another index"],
)  # fmt: skip
def test_other_ways_of_being_wrong_are_refused_too(tmp_path, wrong):
    key = VECTORS["encrypted_chunk"][0]["session_key"]
    assert check(tmp_path, {"must_fail": [{"session_key": key} | wrong]}) == (1, [])


def test_a_handshake_for_another_host_must_fail(tmp_path):
    case = VECTORS["session_init"][0] | {"host_private": "11" * 32}
    assert check(tmp_path, {"must_fail": [case]}) == (1, [])


@pytest.mark.parametrize(
    "vectors", [{"novelty": []}, {"must_fail": []}, {"identities": {"x": {}}}, {"published": 3}]
)
def test_what_cannot_be_checked_has_not_passed(tmp_path, vectors):
    passed, wrong = check(tmp_path, vectors)
    assert (passed, len(wrong)) == (0, 1)


def test_the_command_counts_and_exits(tmp_path):
    command = [sys.executable, "-m", "toolbridge.node.vectors"]
    good = subprocess.run([*command, str(FILE)], capture_output=True, text=True, check=False)
    assert good.returncode == 0
    assert good.stdout.endswith(" passed, 0 failed\n")


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ('{"model_ids": [{"model": "a:b", "model_id": "0x00"}]}', 1, "0 passed, 1 failed\n"),
        ("no json", 2, ""),
        (None, 2, ""),
    ],
)
def test_the_exit_code_tells_what_went_wrong(tmp_path, monkeypatch, capsys, text, code, said):
    path = tmp_path / "vectors.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(sys, "argv", ["vectors", str(path)])
    assert main() == code
    assert capsys.readouterr().out == said
    monkeypatch.setattr(sys, "argv", ["vectors"])
    assert main() == 2
