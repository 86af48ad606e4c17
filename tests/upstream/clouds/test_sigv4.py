"""Signature Version 4: vectors that botocore 1.44 gives as well, and botocore itself if installed."""

import hashlib

import pytest
import yarl
from hypothesis import example, given
from hypothesis import strategies as st
from tests.clouds import ACCESS, SECRET, fault
from tests.peers import Heard
from tests.tables import every_row

from toolbridge.upstream.clouds.sigv4 import AwsKeys, Scope, sign
from toolbridge.wire.url_path import quote_segment

BODY = (
    b'{"anthropic_version":"bedrock-2023-05-31","max_tokens":16,'
    b'"messages":[{"role":"user","content":"hi"}]}'
)
AT = "20261115T120000Z"
RUNTIME = "https://bedrock-runtime.us-east-1.amazonaws.com"
MODEL = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1"
KEYS = AwsKeys(ACCESS, SECRET)
HEADERS = {"Content-Type": "application/json"}


@every_row(
    ("url", "service", "session", "signature"),
    [
        (f"{RUNTIME}{MODEL}:0/invoke", "bedrock", "", "84ac82431f74b55073e0d6a15abca6d6f6ac59ee973a803707d40b84107bf92f"),
        (f"{RUNTIME}{MODEL}%3A0/invoke", "bedrock", "", "fc28b31cd23ec7abdb0a887fc07a60a309213f15ca7b51a2a844e138659010eb"),
        (f"{RUNTIME}{MODEL}:0/invoke", "bedrock", "IQoJb3JpZ2luX2VjEXAMPLE", "6a2278f0b14e953d06892577a330d1a21a666db03de9b863c94400a531164f6a"),
        ("https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages", "bedrock-mantle", "", "c24fcedbca51013b6b2a34a076e4da78f095b0e265daaa5bdc1128d89115e688"),
    ],
    ids=["plain", "quoted twice", "session", "mantle"],
)  # fmt: skip
def test_vectors(url, service, session, signature):
    assert hashlib.sha256(BODY).hexdigest().startswith("616eb592")
    keys = AwsKeys(ACCESS, SECRET, session)
    signed = sign("POST", url, HEADERS, BODY, keys, Scope(AT, "us-east-1", service))
    extra = ";x-amz-security-token" if session else ""
    assert signed["authorization"] == (
        f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261115/us-east-1/{service}/aws4_request, "
        f"SignedHeaders=content-type;host;x-amz-date{extra}, Signature={signature}"
    )
    assert signed["x-amz-date"] == AT
    assert signed.get("x-amz-security-token", "") == session


def heard(url: str, signed: dict[str, str], body: bytes) -> Heard:
    path = "/" + url.partition("://")[2].partition("/")[2]
    return Heard("POST", path, signed, body)


REQUESTS = st.tuples(
    # Names of models as they stand in a path; AWS removes dot segments, which no name is.
    st.text(min_size=1, max_size=20).map(lambda name: f"model/x{quote_segment(name)}/invoke"),
    st.sampled_from(["", "?b=2&a=1", "?x=%20y&x=1", "?alt=sse", "?empty="]),
    st.binary(max_size=50),
    st.sampled_from(["", "token/with+signs=="]),
)


@given(REQUESTS)
def test_the_verifier_of_the_fake_cloud_accepts_it_and_nothing_else(request):
    path, query, body, session = request
    url = f"http://127.0.0.1:8080/{path}{query}"
    keys = AwsKeys(ACCESS, SECRET, session)
    scope = Scope(AT, "us-east-1", "bedrock")
    signed = sign("POST", url, HEADERS, body, keys, scope)
    assert fault(heard(url, signed, body)) == ""
    assert fault(heard(url, signed, body + b" ")) == "InvalidSignatureException"
    assert fault(heard(url, signed | {"host": "evil"}, body)) == "InvalidSignatureException"
    wrong = sign("POST", url, HEADERS, body, AwsKeys(ACCESS, "x" * 40, session), scope)
    assert fault(heard(url, wrong, body)) == "InvalidSignatureException"


@given(st.text(min_size=1, max_size=20))
@example("arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc")
@example("us.anthropic.claude-sonnet-4-5-20250929-v1:0")
def test_the_http_client_sends_the_path_that_was_signed(name):
    url = f"https://bedrock-runtime.us-east-1.amazonaws.com/model/x{quote_segment(name)}/invoke"
    assert str(yarl.URL(url)) == url


@given(REQUESTS)
def test_botocore_gives_the_same_signature(request):
    auth = pytest.importorskip("botocore.auth", reason="botocore is not installed")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    path, query, body, session = request
    url = f"https://bedrock-runtime.us-east-1.amazonaws.com/{path}{query}"
    asked = AWSRequest(method="POST", url=url, data=body, headers=HEADERS)
    credentials = Credentials(ACCESS, SECRET, session or None)
    signer = auth.SigV4Auth(credentials, "bedrock", "us-east-1")
    asked.context["timestamp"] = AT
    signer._modify_request_before_signing(asked)
    text = signer.string_to_sign(asked, signer.canonical_request(asked))
    signer._inject_signature_to_request(asked, signer.signature(text, asked))
    ours = sign("POST", url, HEADERS, body, AwsKeys(ACCESS, SECRET, session), Scope(AT, "us-east-1", "bedrock"))  # fmt: skip
    assert ours["authorization"] == asked.headers["Authorization"]
