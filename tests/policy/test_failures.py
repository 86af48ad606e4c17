"""Failures are told apart, on the error bodies that providers send."""

import json
import time

import pytest
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.config import ProviderConfig
from toolbridge.core.codec import Target
from toolbridge.core.errors import KINDS
from toolbridge.core.messages import Problem
from toolbridge.core.retry_after import read_wait
from toolbridge.policy.failover import (
    TriedAddress,
    chain_problem,
    has_larger_window,
    may_try_next,
    overflowed_window,
    rest_after,
)
from toolbridge.policy.failures import classify
from toolbridge.policy.retry import may_retry
from toolbridge.routing.rejections import rejected
from toolbridge.routing.route import Route


def anthropic(type, message):
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_1"}


def openai(message, type="invalid_request_error", code=None, param=None):
    return {"error": {"message": message, "type": type, "param": param, "code": code}}


def google(code, status, message, *details):
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


SOON = int(time.time()) + 86_400
RPC = "type.googleapis.com/google.rpc."
RETRY_33 = {"@type": f"{RPC}RetryInfo", "retryDelay": "33s"}
PER_DAY = {
    "@type": f"{RPC}QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}],
}
TPM = (
    "Request too large for model `llama-3.3-70b-versatile` in organization `org_1` service tier "
    "`on_demand` on tokens per minute (TPM): Limit 12000, Requested 14137, please reduce your "
    "message size and try again."
)
TPD = (
    "Rate limit reached for model `llama-3.3-70b-versatile` in organization `org_1` service tier "
    "`on_demand` on tokens per day (TPD): Limit 100000, Used 97050, Requested 3619. Please try "
    "again in 9m38.016s."
)
BEDROCK = "x-amzn-errortype"
REJECTIONS = [
    # provider, API, status, headers, body, class
    ("anthropic", "anthropic", 429, {"retry-after": "12"},
     anthropic("rate_limit_error", "This request would exceed your account's rate limit. "
               "Please try again later."), "rate_limit"),
    ("anthropic", "anthropic", 429, {"retry-after": "9000"},
     anthropic("rate_limit_error", "This request would exceed your account's rate limit."), "quota"),
    ("anthropic", "anthropic", 400, {},
     anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic "
               "API. Please go to Plans & Billing to upgrade or purchase credits."), "quota"),
    ("anthropic", "anthropic", 529, {}, anthropic("overloaded_error", "Overloaded"), "overload"),
    ("anthropic", "anthropic", 500, {}, anthropic("api_error", "Internal server error"), "overload"),
    ("anthropic", "anthropic", 401, {},
     anthropic("authentication_error", "invalid x-api-key"), "auth"),
    ("anthropic", "anthropic", 403, {},
     anthropic("permission_error", "Your API key does not have permission to use the specified "
               "resource."), "auth"),
    ("anthropic", "anthropic", 404, {},
     anthropic("not_found_error", "model: claude-opus-9"), "no_model"),
    ("anthropic", "anthropic", 400, {},
     anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
     "overflow"),
    ("anthropic", "anthropic", 400, {},
     anthropic("invalid_request_error", "messages.0: all messages must have non-empty content"),
     "bad_request"),
    ("anthropic", "anthropic", 413, {},
     anthropic("request_too_large", "Request exceeds the maximum size"), "too_large"),
    ("openai", "openai_chat", 429, {},
     openai("You exceeded your current quota, please check your plan and billing details.",
            "insufficient_quota", "insufficient_quota"), "quota"),
    ("openai", "openai_chat", 429, {"retry-after-ms": "250"},
     openai("Rate limit reached for gpt-5 in organization org-1 on requests per min (RPM)",
            "requests", "rate_limit_exceeded"), "rate_limit"),
    ("openai", "openai_chat", 429, {},
     openai("Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit "
            "30000, Requested 61337. The input or output tokens must be reduced in order to run "
            "successfully.", "tokens", "rate_limit_exceeded"), "too_large"),
    ("openai", "openai_chat", 401, {},
     openai("Incorrect API key provided: sk-x.", code="invalid_api_key"), "auth"),
    ("openai", "openai_responses", 404, {},
     openai("The model `gpt-9` does not exist or you do not have access to it.",
            code="model_not_found"), "no_model"),
    ("openai", "openai_chat", 400, {},
     openai("This model's maximum context length is 8192 tokens. However, your messages resulted "
            "in 9000 tokens.", code="context_length_exceeded"), "overflow"),
    ("openai", "openai_chat", 503, {},
     openai("The engine is currently overloaded, please try again later", "server_error"),
     "overload"),
    ("google", "gemini", 429, {},
     google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted", RETRY_33), "rate_limit"),
    ("google", "gemini", 429, {},
     google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", PER_DAY, RETRY_33),
     "quota"),
    ("google", "gemini", 400, {},
     google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.",
            {"@type": f"{RPC}ErrorInfo", "reason": "API_KEY_INVALID"}), "auth"),
    ("google", "gemini", 400, {},
     google(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), "auth"),
    ("google", "gemini", 503, {},
     google(503, "UNAVAILABLE", "The model is overloaded. Please try again later."), "overload"),
    ("google", "gemini", 404, {},
     google(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta"), "no_model"),
    ("google", "gemini", 400, {},
     google(400, "INVALID_ARGUMENT", 'Unknown name "foo": Cannot find field.'), "bad_request"),
    ("openrouter", "openai_chat", 429, {},
     {"error": {"message": "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock "
                "1000 free model requests per day", "code": 429,
                "metadata": {"headers": {"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0",
                                         "X-RateLimit-Reset": f"{SOON}000"}}}}, "quota"),
    ("openrouter", "openai_chat", 402, {},
     {"error": {"message": "Insufficient credits. Add more using https://openrouter.ai/credits",
                "code": 402}}, "quota"),
    ("openrouter", "openai_chat", 403, {},
     {"error": {"message": "Key limit exceeded (total limit).", "code": 403}}, "quota"),
    ("openrouter", "openai_chat", 401, {},
     {"error": {"message": "User not found.", "code": 401}}, "auth"),
    ("openrouter", "openai_chat", 400, {},
     {"error": {"message": "x/y is not a valid model ID", "code": 400}}, "no_model"),
    ("openrouter", "openai_chat", 502, {},
     {"error": {"message": "Provider returned error", "code": 502}}, "overload"),
    ("deepseek", "openai_chat", 402, {},
     openai("Insufficient Balance", "unknown_error", "invalid_request_error"), "quota"),
    ("deepseek", "openai_chat", 400, {},
     openai("Model Not Exist", code="invalid_request_error"), "no_model"),
    ("deepseek", "openai_chat", 401, {},
     openai("Authentication Fails (no such user)", "authentication_error",
            "invalid_request_error"), "auth"),
    ("groq", "openai_chat", 429, {}, openai(TPD, "tokens", "rate_limit_exceeded"), "quota"),
    ("groq", "openai_chat", 413, {}, openai(TPM, "tokens", "rate_limit_exceeded"), "too_large"),
    ("groq", "openai_chat", 404, {},
     openai("The model `llama-9` does not exist or you do not have access to it.",
            code="model_not_found"), "no_model"),
    ("groq", "openai_chat", 400, {},
     openai("The model `llama3-8b` has been decommissioned and is no longer supported.",
            code="model_decommissioned"), "no_model"),
    ("ollama", "ollama", 404, {}, {"error": "model 'qwen9' not found"}, "no_model"),
    ("ollama", "ollama", 503, {},
     {"error": "server busy, please try again. maximum pending requests exceeded"}, "overload"),
    ("ollama", "ollama", 400, {}, {"error": "invalid options: nope"}, "bad_request"),
    ("llama.cpp", "openai_chat", 400, {},
     {"error": {"code": 400, "message": "request (60003 tokens) exceeds the available context size "
                "(8192 tokens), try increasing it", "type": "exceed_context_size_error"}},
     "overflow"),
    ("llama.cpp", "openai_chat", 503, {},
     {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, "overload"),
    ("llama.cpp", "openai_chat", 401, {},
     {"error": {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}}, "auth"),
    ("bedrock", "bedrock", 429, {BEDROCK: "ThrottlingException:http://internal"},
     {"message": "Too many requests, please wait before trying again."}, "rate_limit"),
    ("bedrock", "bedrock", 403, {BEDROCK: "ExpiredTokenException"},
     {"message": "The security token included in the request is expired"}, "auth"),
    ("bedrock", "bedrock", 404, {BEDROCK: "ResourceNotFoundException"},
     {"message": "Model not found."}, "no_model"),
    ("bedrock", "bedrock", 400, {BEDROCK: "ValidationException"},
     {"message": "The provided model identifier is invalid."}, "no_model"),
    ("bedrock", "bedrock", 400, {BEDROCK: "ValidationException"},
     {"message": "Input is too long for requested model: prompt is too long: 9 tokens > 8 maximum"},
     "overflow"),
    ("bedrock", "bedrock", 503, {BEDROCK: "ServiceUnavailableException"},
     {"message": "Service unavailable"}, "overload"),
]  # fmt: skip


class Reply:
    """The head of a rejection, as `upstream.http.Incoming` has it."""

    def __init__(self, status, headers):
        self.status = status
        self.proxy = ""
        self.headers = headers


def problem_of(provider, api, status, headers, body) -> Problem:
    route = Route(provider, ProviderConfig(api=api), "", Target("m"))
    return rejected(Reply(status, headers), json.dumps(body).encode(), route).problem


@every_row(
    ("provider", "api", "status", "headers", "body", "failure"),
    REJECTIONS,
    ids=[f"{row[0]}-{row[2]}-{row[5]}-{at}" for at, row in enumerate(REJECTIONS)],
)
def test_each_providers_own_words_are_classified(provider, api, status, headers, body, failure):
    assert classify(problem_of(provider, api, status, headers, body)) == failure


def test_the_table_has_every_provider_of_note():
    assert len({row[0] for row in REJECTIONS}) >= 8
    assert {row[1] for row in REJECTIONS} <= {*codecs.names(), "bedrock"}


@every_row(
    ("kind", "failure"),
    [("unreachable", "connection"), ("timed_out", "connection"), ("truncated", "connection"),
     ("broken_wire", "connection"), ("unauthenticated", "auth"), ("unknown_model", "no_model"),
     ("config", "no_model"), ("malformed_request", "bad_request"), ("aborted", "bad_request"),
     ("internal", "bad_request"), ("unsupported", "bad_request"), ("rejected", "overload")],
)  # fmt: skip
def test_a_failure_without_a_rejection_is_classified_by_its_kind(kind, failure):
    assert kind in KINDS
    assert classify(Problem(kind, "x")) == failure


def test_only_a_bad_request_stays_with_its_provider():
    assert not may_try_next(Problem("rejected", "odd", status=400))
    assert may_try_next(Problem("rejected", "odd", status=401))


def test_the_wait_is_read_from_the_header_of_a_reset_and_from_words():
    row = next(row for row in REJECTIONS if row[0] == "openrouter" and row[2] == 429)
    assert problem_of(*row[:5]).retry_after > 80_000
    assert read_wait("Please try again in 9m38.016s. More") == pytest.approx(578.016)
    assert read_wait("please try again in 250ms") == 0.25
    assert read_wait("try again in 1h2m3s") == 3723
    assert read_wait("try again in a moment") is None
    reset = {"anthropic-ratelimit-unified-reset": str(SOON)}
    found = problem_of("anthropic", "anthropic", 429, reset, anthropic("rate_limit_error", "no"))
    assert classify(found) == "quota"


@every_row(
    ("problem", "rest"),
    [
        (Problem("rejected", "no credit", status=402), (300.0, True)),
        (Problem("rate_limited", "x", status=429, retry_after=7200.0), (7200.0, False)),
        (Problem("rate_limited", "x", status=429, retry_after=1e9), (86400.0, False)),
        (Problem("rate_limited", "x", status=429, retry_after=40.0), (40.0, False)),
        (Problem("rejected", "x", status=401), (60.0, False)),
        (Problem("overloaded", "x"), (0.0, False)),
    ],
)
def test_an_address_rests_as_long_as_its_failure_lasts(problem, rest):
    assert rest_after(problem) == rest


def test_waits_are_short_where_another_provider_is_next():
    slow = Problem("rate_limited", "x", retry_after=20.0)
    assert may_retry(slow, attempt=1, content_sent=False)
    assert not may_retry(slow, attempt=1, content_sent=False, has_next=True)
    brief = Problem("rate_limited", "x", retry_after=2.0)
    assert may_retry(brief, attempt=1, content_sent=False, has_next=True)
    refused = Problem("unreachable", "x", permanent=True)
    assert may_retry(refused, attempt=1, content_sent=False)
    assert not may_retry(refused, attempt=1, content_sent=False, has_next=True)
    late = Problem("timed_out", "x")
    assert not may_retry(late, attempt=1, content_sent=False, has_next=True)


def test_only_a_larger_window_accepts_what_another_did_not():
    overflow = Problem("context_overflow", "prompt is too long: 300 tokens > 200 maximum")
    assert overflowed_window(overflow, 0) == 200
    assert overflowed_window(Problem("overloaded", "> 5"), 200) == 0
    assert [has_larger_window(window, 200) for window in (0, 100, 200, 201)] == [
        True, False, False, True,
    ]  # fmt: skip
    assert has_larger_window(1, 0)


def test_the_client_gets_the_failure_after_which_waiting_helps():
    tried = [
        TriedAddress("a/x", Problem("rejected", "bad key", status=401)),
        TriedAddress("b/y", Problem("overloaded", "busy", status=529, retry_after=9.0)),
        TriedAddress("c/z", Problem("overloaded", ""), "quota, for 7 s more"),
    ]
    found = chain_problem(tried)
    assert (found.kind, found.status, found.retry_after) == ("overloaded", 529, 9.0)
    assert "a/x auth (401) bad key" in found.text
    assert "c/z passed over: quota" in found.text


def test_an_overflow_keeps_the_words_that_clients_search_for():
    words = "prompt is too long: 300 tokens > 200 maximum"
    tried = [
        TriedAddress("a/x", Problem("context_overflow", words)),
        TriedAddress("b/y", Problem("overloaded", ""), "its context window is not larger"),
    ]
    assert chain_problem(tried).text == words
