"""What a node says, sealed as a node seals it."""

from itertools import count

from toolbridge.node.protocol import encryption
from toolbridge.node.protocol.encryption import Secret


class Speaker:
    """One answer of a node: its chunks in order, its response and its end, as JSON objects."""

    def __init__(self, key: Secret, id: str, session_id: str = "123", nonces=None) -> None:
        self.key = key
        self.names = {"id": id, "session_id": session_id}
        self._nonces = nonces or count(1)
        self.index = 0

    def sealed(self, text: str | bytes, aad: str) -> dict:
        nonce = next(self._nonces).to_bytes(24, "big")
        plain = text.encode() if isinstance(text, str) else text
        return {
            "ciphertextHex": encryption.seal(self.key, nonce, plain, aad.encode()).hex(),
            "nonceHex": nonce.hex(),
            "aadHex": aad.encode().hex(),
        }

    def chunk(self, text: str | bytes, *, final: bool = False, tokens: int | None = None) -> dict:
        payload = self.sealed(text, encryption.chunk_aad(self.index)) | {"index": self.index}
        self.index += 1
        counted = (0 if final else 1) if tokens is None else tokens
        message = {"type": "encrypted_chunk", "tokens": counted, "payload": payload, **self.names}
        return message | ({"final": True} if final else {})

    def response(self, text: str = "stop", aad: str = encryption.RESPONSE_AAD) -> dict:
        return {"type": "encrypted_response", "payload": self.sealed(text, aad), **self.names}

    def end(self, reason: str = "complete", *, used: int = 0, **more: object) -> dict:
        return {"type": "stream_end", "reason": reason, "tokens_used": used, **self.names, **more}

    def usage(self, prompt: int, completion: int) -> dict:
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "context_window_size": 4096,
        }

    def answer(self, *texts: str, finish: str = "stop", prompt: int = 11) -> list[dict]:
        """Return a whole answer as a present node gives it."""
        chunks = [self.chunk(text) for text in texts]
        last = [self.chunk("", final=True), self.response()]
        usage = self.usage(prompt, len(texts))
        return [*chunks, *last, self.end(used=len(texts), finish_reason=finish, usage=usage)]
