import pytest
from hypothesis import given
from tests import strategies
from tests.tables import every_row

from toolbridge.codecs.gemini.spelling import camel, respell


@every_row(
    ("snake", "expected"),
    [
        ("top_p", "topP"), ("inline_data", "inlineData"), ("topP", "topP"), ("_private", "_private"),
        ("a__b", "aB"), ("response_json_schema", "responseJsonSchema"), ("", ""),
    ],
)  # fmt: skip
def test_a_key_becomes_camel_case(snake, expected):
    assert camel(snake) == expected


@pytest.mark.req("CL-01")
@every_row(
    ("body", "expected"),
    [
        (
            {"contents": [{"parts": [{"function_call": {"name": "f", "args": {"a_b": {"c_d": 1}}}}]}]},
            {"contents": [{"parts": [{"functionCall": {"name": "f", "args": {"a_b": {"c_d": 1}}}}]}]},
        ),
        (
            {"contents": {"parts": {"function_response": {"response": {"a_b": 1}}}}},
            {"contents": {"parts": {"functionResponse": {"response": {"a_b": 1}}}}},
        ),
        (
            {"contents": [{"parts": [{"function_response": {"parts": [{"inline_data": {"mime_type": "x"}}]}}]}]},
            {"contents": [{"parts": [{"functionResponse": {"parts": [{"inlineData": {"mimeType": "x"}}]}}]}]},
        ),
        (
            {"system_instruction": [{"inline_data": {"mime_type": "x"}}]},
            {"systemInstruction": [{"inlineData": {"mimeType": "x"}}]},
        ),
        (
            {"system_instruction": {"parts": [{"file_data": {"file_uri": "x"}}]}},
            {"systemInstruction": {"parts": [{"fileData": {"fileUri": "x"}}]}},
        ),
        (
            {"tools": [{"function_declarations": [{"parameters_json_schema": {"properties": {"a_b": {}}}}]}]},
            {"tools": [{"functionDeclarations": [{"parametersJsonSchema": {"properties": {"a_b": {}}}}]}]},
        ),
        (
            {"tools": [{"google_search": {"time_range_filter": {"start_time": 1}}}]},
            {"tools": [{"googleSearch": {"timeRangeFilter": {"startTime": 1}}}]},
        ),
        (
            {"generation_config": {"response_schema": {"a_b": 1}, "thinking_config": {"thinking_budget": 1}}},
            {"generationConfig": {"responseSchema": {"a_b": 1}, "thinkingConfig": {"thinkingBudget": 1}}},
        ),
        (
            {"tool_config": {"function_calling_config": {"allowed_function_names": ["a_b"]}}},
            {"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["a_b"]}}},
        ),
        ({"labels": {"a_b": "c"}, "cached_content": "d_e"}, {"labels": {"a_b": "c"}, "cachedContent": "d_e"}),
    ],
)  # fmt: skip
def test_keys_of_the_api_are_respelt_and_those_of_users_are_not(body, expected):
    assert respell(body) == expected


@given(strategies.json_objects)
def test_arguments_are_never_touched(arguments):
    body = {"contents": [{"parts": [{"function_call": {"args": arguments}}]}]}
    assert respell(body)["contents"][0]["parts"][0]["functionCall"]["args"] == arguments
