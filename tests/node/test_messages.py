import json

import pytest
from tests.node.frames import Speaker
from tests.tables import every_row

from toolbridge.core.errors import BrokenWire
from toolbridge.core.json import dump_bytes, dumps
from toolbridge.node.chain.address import address_of
from toolbridge.node.protocol import encryption, messages
from toolbridge.node.protocol.encryption import DecryptionFailed, Decryptor, Secret
from toolbridge.node.protocol.messages import (
    AnswerChunk,
    InitAck,
    InitKeys,
    InitPayload,
    NodeFault,
    OtherMessage,
    Payload,
    PromptEnvelope,
    Response,
    SessionTopic,
    StreamEnd,
    decode_message,
    encode_cancel,
    encode_init,
    encode_prompt,
    encode_reset,
    problem_of,
)

HOST = Secret.from_hex("46" * 32)
WALLET = Secret.from_hex("12" * 32)
SESSION = Secret.from_hex("ab" * 32)
OPENING = SessionTopic("s-1", "123", "repo:file")


def keys(**changes):
    values = {
        "signer": WALLET,
        "host": encryption.public_key(HOST),
        "session": SESSION,
        "ephemeral": Secret.from_hex("77" * 32),
        "nonce": bytes(24),
    }
    return InitKeys(**values | changes)


class TestHandshake:
    sent = encode_init(OPENING, keys(), id="init-1")
    payload = messages.msgspec.convert(sent["payload"], InitPayload)

    @pytest.mark.req("CB-20")
    def test_the_host_reads_the_session_key_and_the_job(self):
        assert json.loads(self.payload.open(HOST)) == {
            "sessionKey": "ab" * 32,
            "jobId": "123",
            "modelName": "repo:file",
            "pricePerToken": 0,
            "recoveryPublicKey": "0x" + encryption.public_key(WALLET).hex(),
        }

    @pytest.mark.req("CB-20")
    def test_the_wallet_signed_it(self):
        signer = self.payload.signer(encryption.public_key(HOST))
        assert address_of(signer) == address_of(encryption.public_key(WALLET))

    def test_the_outside_says_which_session_it_is(self):
        outside = {name: value for name, value in self.sent.items() if name != "payload"}
        assert outside == {
            "type": "encrypted_session_init",
            "chain_id": 84532,
            "session_id": "s-1",
            "job_id": "123",
            "id": "init-1",
        }

    def test_salt_and_info_are_sent_as_what_they_are(self):
        payload = self.sent["payload"]
        assert (payload["saltHex"], payload["info"], payload["aadHex"]) == ("00" * 32, "", "")
        assert payload["recid"] in {0, 1}

    def test_nobody_else_reads_it(self):
        with pytest.raises(DecryptionFailed):
            self.payload.open(Secret.from_hex("47" * 32))

    @pytest.mark.parametrize("secret", ["ab" * 32, "12" * 32, "77" * 32])
    def test_no_key_stands_outside_the_seal(self, secret):
        assert secret not in dumps(self.sent)
        assert secret not in repr((keys(), OPENING, PromptEnvelope("s", "i", SESSION, bytes(24))))

    def test_a_handshake_with_a_point_off_the_curve_is_refused(self):
        wrong = InitPayload("02" + "ff" * 32, "00" * 16, "00" * 24, "", "00" * 65)
        with pytest.raises(DecryptionFailed, match="curve"):
            wrong.open(HOST)

    def test_a_reset_names_the_session_and_nothing_secret(self):
        assert encode_reset(OPENING, id="r") == {
            "type": "session_init",
            "chain_id": 84532,
            "session_id": "s-1",
            "job_id": "123",
            "id": "r",
        }


class TestPrompts:
    @pytest.mark.req("CB-20")
    def test_a_prompt_is_sealed_for_its_place(self):
        sent = encode_prompt({"prompt": "hi"}, PromptEnvelope("s-1", "p-1", SESSION, bytes(24), 3))
        payload = messages.msgspec.convert(sent["payload"], Payload)
        assert payload.label == "message_3"
        assert json.loads(payload.open(Decryptor(SESSION), "message_3")) == {"prompt": "hi"}

    def test_a_node_is_kept_from_searching_the_web(self):
        sent = encode_prompt({}, PromptEnvelope("s-1", "p-1", SESSION, bytes(24)))
        assert (sent["web_search"], sent["max_searches"]) == (False, 0)
        assert (sent["type"], sent["session_id"], sent["id"]) == ("encrypted_message", "s-1", "p-1")

    def test_a_cancellation_names_the_session(self):
        assert encode_cancel("s-1") == {
            "type": "stream_cancel",
            "session_id": "s-1",
            "reason": "user_cancelled",
        }


class TestDecoding:
    speaker = Speaker(SESSION, "p-1")

    @every_row(
        ("sent", "kind"),
        [
            (speaker.chunk("x"), AnswerChunk),
            (speaker.response(), Response),
            (speaker.end(), StreamEnd),
            ({"type": "session_init_ack", "status": "success", "job_id": None}, InitAck),
            ({"type": "error", "error": "no"}, NodeFault),
            ({"type": "connected", "message": "hello"}, OtherMessage),
            ({"type": "proof_submitted"}, OtherMessage),
            ({}, OtherMessage),
        ],
    )
    def test_every_message_is_known_by_its_type(self, sent, kind):
        assert isinstance(decode_message(dump_bytes(sent)), kind)
        assert isinstance(decode_message(dumps(sent)), kind)

    def test_unknown_fields_change_nothing(self):
        sent = self.speaker.end(used=3)
        assert decode_message(dumps(sent | {"later": {"x": 1}})) == decode_message(dumps(sent))

    @every_row(
        "wrong",
        [
            "",
            "no json",
            "[]",
            '{"type":"encrypted_chunk"}',
            '{"type":"stream_end","reason":5}',
        ],
    )
    def test_what_is_no_message_is_a_broken_wire(self, wrong):
        with pytest.raises(BrokenWire):
            decode_message(wrong)

    def test_a_payload_that_is_not_hex_is_a_broken_seal(self):
        with pytest.raises(DecryptionFailed, match="hex"):
            Payload("zz", "00" * 24, "00").open(Decryptor(SESSION), "\0")

    def test_prefixes_are_taken_off(self):
        payload = self.speaker.chunk("x")["payload"]
        prefixed = Payload(*("0x" + payload[n] for n in ("ciphertextHex", "nonceHex", "aadHex")))
        assert prefixed.open(Decryptor(SESSION), prefixed.label) == b"x"


@every_row(
    ("fault", "kind", "text"),
    [
        (NodeFault(code="INVALID_UTF8", message="bad bytes"), "rejected", "bad bytes (INVALID_UTF8)"),
        (NodeFault(error="engine died"), "rejected", "the node returned an error: engine died"),
        (NodeFault(), "rejected", "without a message"),
        (NodeFault(code="SESSION_AUTH_DENIED", message="no"), "rejected", "denied access to the session"),
        (NodeFault(code="TOKEN_LIMIT_EXCEEDED", message="m", prompt_tokens=9, context_window_size=5),
         "context_overflow", "prompt is too long: 9 tokens > 5 maximum"),
        (NodeFault(code="TOKEN_LIMIT_EXCEEDED", message="m"), "context_overflow", "prompt is too long: m"),
        (NodeFault(error="Rate limit exceeded, retry after 60 seconds"), "rate_limited", "rate limit"),
    ],
)  # fmt: skip
def test_a_fault_is_told_in_our_words(fault, kind, text):
    problem = problem_of(fault)
    assert problem.kind == kind
    assert text in problem.text


def test_a_rate_limit_says_how_long_to_wait():
    limited = NodeFault(error="Rate limit exceeded, retry after 60 seconds")
    assert problem_of(limited).retry_after == 60
    assert problem_of(NodeFault(error="rate limit")).retry_after is None


@pytest.mark.parametrize("field", ["code", "message", "error"])
def test_an_error_of_a_host_cannot_write_to_a_terminal(field):
    wrong = {"type": "error", field: "\x1b[2J\x1b]0;owned\x07line\nline\x9b31m\u202e" + "x" * 5000}
    text = problem_of(decode_message(json.dumps(wrong))).text
    assert text.isprintable()
    assert "line line" in text
    assert len(text) < 5000
