"""What the requests of real clients lose on the way to every other API: all of it true, and no more.

Each line was read against the documentation of the two APIs. A new one fails here and is read too.
"""

import json
import re

import pytest
from tests.properties.request_bodies import BODIES, at, body, objects
from tests.properties.test_same_api_requests import captures
from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.codec import Target
from toolbridge.translate import RequestOptions, plan

TRUE = (
    # thinking: every API measures it otherwise
    r"(thinking|reasoning|output_config\.effort|generationConfig\.thinkingConfig)\b.*",
    # no other API runs these, and where one has its own, it is another issue to offer it
    r"tools\.\d+: the tool 'web_search' is run by .*",
    r"tool_choice: (there is no tool|Ollama's API cannot force a call).*",
    # content that the target cannot show, or take back
    r"[\w.]+: Ollama takes documents only as text",
    r"[\w.]+: (Gemini|Anthropic|OpenAI) (takes back|accepts) only .*",
    r"[\w.]+: this provider does not accept thoughts in the history.*",
    r"[\w.]+: an encrypted thought can be read only by .*",
    r"messages: a system message inside the conversation is sent as a user message.*",
    # fields
    r"messages\.\d+\.output_config: .* has no field for it",
    r"tools\.\d+\.format: .* has no field for it",
    r"text\.verbosity: .*(has no field for it|does not take it)",
    # Anthropic, extended thinking: top_k is refused together with it
    r"generationConfig\.topK: .* does not (take it( together with thinking)?|accept the field)",
)
"""What a client is warned of."""

MINOR = (
    r"metadata\.user_id: .*",
    r"[\w.]+\.cache_control: the provider caches prefixes by itself",
    r"tools\.\d+: deferred tools are offered once a search names them.*",
    r"tools\.\d+\.eager_input_streaming: .*",
    r"client_metadata: .*",
    r"(thinking\.display|reasoning\.summary|generationConfig\.thinkingConfig\.includeThoughts): .*",
)
"""What is in the log alone."""


def losses(api: str, given: dict, target: str):
    codec = codecs.load(api)
    request = codec.decode_request(json.dumps(given).encode(), model="m", stream=True)
    asked = Target(model="m", provider="p")
    return plan(request, codecs.load(target), asked, RequestOptions("drop", attaches=True)).losses


@pytest.mark.parametrize(("api", "file"), captures())
def test_a_real_client_is_told_only_what_is_true(api, file):
    if not api:
        pytest.skip(f"there are no captures of clients at {file}")
    given = json.loads(file.read_text())["body"]
    for target in set(codecs.names()) - {api}:
        for loss in losses(api, given, target):
            print(f"{target}: {'minor ' if loss.minor else ''}{loss}")
            known = MINOR if loss.minor else TRUE
            assert any(re.fullmatch(line, str(loss)) for line in known), f"to {target}: {loss}"


def _named(path) -> str:
    return ".".join(map(str, path))


PLACES = [
    pytest.param(api, path, id=f"{api}-{_named(path) or 'top'}")
    for api in BODIES
    for path in objects(BODIES[api])
]


@every_row(("api", "path"), PLACES)
def test_an_unknown_field_is_a_loss_under_the_clients_own_name(api, path):
    given = body(api)
    if api == "ollama" and path[:1] == ("format",):
        return  # a schema, in which users write what they like
    inside = at(given, path)
    inside["xFuture"] = 1
    if any(_is_whole(at(given, path[:n])) for n in range(len(path) + 1)):
        return  # lost or carried as a whole, of which the field is a part
    target = "openai_chat" if api != "openai_chat" else "anthropic"
    said = [loss.what for loss in losses(api, given, target)]
    whole = {_named((*path, "xFuture")[: n + 1]) for n in range(len(path) + 1)}
    assert whole & set(said), said
    assert not [what for what in said if what.startswith(("extra.", "turns.", "sampling."))]


def _is_whole(value) -> bool:
    """Whether an object is of a type that its API alone has, or that its API runs itself."""
    whole = {
        "holo_scan", "holo_tool", "web_search", "web_search_20250305", "web_search_call",
        "bash_20250124", "local_shell", "clear_tool_uses_20250919", "direct",
    }  # fmt: skip
    if not isinstance(value, dict):
        return False
    keys = {"holoScan", "googleSearch", "timeRange", "retrievalConfig", "category", "edits"}
    keys |= {"languageCode", "include_usage", "a", "q", "user_id", "x"}
    return value.get("type") in whole or bool(keys & value.keys())
