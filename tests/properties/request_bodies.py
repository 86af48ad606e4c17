"""One rich request per API, written for these tests: every level that the API has stands in it."""

import copy

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}

ANTHROPIC = {
    "model": "m",
    "max_tokens": 4096,
    "stream": True,
    "system": [
        {"type": "text", "text": "Be brief."},
        {"type": "text", "text": "Rules.", "cache_control": {"type": "ephemeral", "ttl": "5m"}},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look", "cache_control": {"type": "ephemeral"}},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                },
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "words"},
                    "title": "notes",
                    "citations": {"enabled": True},
                },
                {"type": "holo_scan", "volume": {"x": 1}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "cmVk"},
                {"type": "text", "text": "I read."},
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "Read",
                    "input": {"path": "a"},
                    "caller": {"type": "direct"},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "is_error": False,
                    "content": [
                        {"type": "text", "text": "done"},
                        {"type": "tool_reference", "tool_name": "Late"},
                    ],
                },
                {"type": "text", "text": "Go on."},
            ],
        },
    ],
    "tools": [
        {
            "name": "Read",
            "description": "Reads.",
            "input_schema": SCHEMA,
            "cache_control": {"type": "ephemeral", "ttl": "1h"},
        },
        {"name": "Late", "description": "Later.", "input_schema": SCHEMA, "defer_loading": True},
        {"type": "custom", "name": "Typed", "input_schema": SCHEMA},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 2048},
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}},
    "metadata": {"user_id": "u1"},
    "stop_sequences": ["END"],
    "temperature": 1,
    "service_tier": "auto",
    "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
}

OPENAI_CHAT = {
    "model": "m",
    "stream": True,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "system",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
        {
            "role": "user",
            "name": "alice",
            "content": [
                {"type": "text", "text": "Look", "cache_control": {"type": "ephemeral"}},
                {
                    "type": "image_url",
                    "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"},
                },
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
                },
                {"type": "holo_scan", "volume": {"x": 1}},
            ],
        },
        {
            "role": "assistant",
            "content": "I read.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path": "a"}'},
                },
                {"id": "call_2", "type": "custom", "custom": {"name": "patch", "input": "x"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "done", "name": "read"},
        {
            "role": "tool",
            "tool_call_id": "call_2",
            "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        },
        {"role": "user", "content": "Go on."},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "read", "description": "R.", "parameters": SCHEMA, "strict": True},
        },
        {
            "type": "custom",
            "custom": {"name": "patch", "description": "P.", "format": {"type": "text"}},
        },
        {"type": "holo_tool", "power": 3},
    ],
    "tool_choice": {"type": "function", "function": {"name": "read"}},
    "parallel_tool_calls": False,
    "max_tokens": 100,
    "stop": ["END"],
    "temperature": 0.5,
    "seed": 7,
    "reasoning_effort": "low",
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "out", "schema": SCHEMA, "strict": True, "description": "d"},
    },
    "stream_options": {"include_usage": True},
    "user": "u1",
    "metadata": {"a": "b"},
    "service_tier": "flex",
    "store": True,
    "verbosity": "low",
    "prompt_cache_key": "k",
    "logit_bias": {"50256": -100},
}

OPENAI_RESPONSES = {
    "model": "m",
    "stream": True,
    "instructions": "Be brief.",
    "input": [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "Rules."}],
        },
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look"},
                {
                    "type": "input_image",
                    "image_url": f"data:image/png;base64,{PNG}",
                    "detail": "low",
                },
                {"type": "input_file", "filename": "a.pdf", "file_url": "https://a.test/a.pdf"},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "holo_scan", "volume": {"x": 1}},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "c2Vh",
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "phase": "commentary",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "I read.", "annotations": [], "logprobs": []}
            ],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "read",
            "arguments": '{"path": "a"}',
            "status": "completed",
        },
        {"type": "custom_tool_call", "call_id": "call_2", "name": "patch", "input": "x"},
        {"type": "function_call_output", "call_id": "call_1", "output": "done"},
        {
            "type": "custom_tool_call_output",
            "call_id": "call_2",
            "output": [{"type": "input_text", "text": "one"}],
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"q": "x"}},
        {"type": "message", "role": "user", "content": "Go on."},
    ],
    "tools": [
        {
            "type": "function",
            "name": "read",
            "description": "R.",
            "parameters": SCHEMA,
            "strict": True,
        },
        {"type": "custom", "name": "patch", "description": "P.", "format": {"type": "text"}},
        {
            "type": "namespace",
            "name": "mail",
            "description": "Mail.",
            "tools": [
                {"type": "function", "name": "send", "parameters": SCHEMA, "strict": False},
            ],
        },
        {"type": "web_search", "search_context_size": "low"},
        {"type": "local_shell"},
    ],
    "tool_choice": {"type": "function", "name": "read"},
    "parallel_tool_calls": False,
    "max_output_tokens": 100,
    "temperature": 0.5,
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {
        "format": {"type": "json_schema", "name": "out", "schema": SCHEMA, "strict": True},
        "verbosity": "low",
    },
    "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
    "store": False,
    "metadata": {"a": "b"},
    "service_tier": "flex",
    "safety_identifier": "u1",
    "prompt_cache_key": "k",
    "truncation": "auto",
}

GEMINI = {
    "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "Rules."}]},
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": "Look"},
                {
                    "inlineData": {"mimeType": "image/png", "data": PNG},
                    "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"},
                },
                {"fileData": {"mimeType": "application/pdf", "fileUri": "https://a.test/a.pdf"}},
                {"holoScan": {"x": 1}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True},
                {
                    "functionCall": {"id": "c1", "name": "read", "args": {"path": "a"}},
                    "thoughtSignature": "c2ln",
                },
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "c1",
                        "name": "read",
                        "response": {"output": "done"},
                        "scheduling": "SILENT",
                    }
                },
                {"text": "Go on."},
            ],
        },
    ],
    "tools": [
        {
            "functionDeclarations": [
                {
                    "name": "read",
                    "description": "R.",
                    "parametersJsonSchema": SCHEMA,
                    "behavior": "BLOCKING",
                }
            ]
        },
        {"googleSearch": {"timeRange": "d"}},
    ],
    "toolConfig": {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["read"]},
        "retrievalConfig": {"languageCode": "de"},
    },
    "generationConfig": {
        "temperature": 0.5,
        "topK": 3,
        "maxOutputTokens": 100,
        "stopSequences": ["END"],
        "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"},
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
        "mediaResolution": "MEDIA_RESOLUTION_LOW",
    },
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    "labels": {"team": "a"},
    "serviceTier": "flex",
}

OLLAMA = {
    "model": "m",
    "stream": True,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look", "images": [PNG]},
        {
            "role": "assistant",
            "content": "I read.",
            "thinking": "hm",
            "tool_calls": [
                {
                    "id": "call_1",
                    "function": {"index": 0, "name": "read", "arguments": {"path": "a"}},
                }
            ],
        },
        {"role": "tool", "content": "done", "tool_name": "read", "tool_call_id": "call_1"},
        {"role": "user", "content": "Go on."},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "read", "description": "R.", "parameters": SCHEMA},
        }
    ],
    "think": True,
    "format": SCHEMA,
    "options": {"temperature": 0.5, "num_ctx": 4096, "num_predict": 100, "stop": ["END"]},
    "keep_alive": "5m",
}

BODIES = {
    "anthropic": ANTHROPIC,
    "openai_chat": OPENAI_CHAT,
    "openai_responses": OPENAI_RESPONSES,
    "gemini": GEMINI,
    "ollama": OLLAMA,
}

FREE = {
    "input_schema", "schema", "parameters", "parametersJsonSchema", "responseJsonSchema", "input",
    "args", "arguments", "response", "labels", "logit_bias", "metadata",
}  # fmt: skip
"""Objects in which users write what they like: no field of the API can appear there."""


def body(api: str) -> dict:
    return copy.deepcopy(BODIES[api])


def objects(value, path=()):
    """Yield the path of every object of the API inside `value`, itself included."""
    if isinstance(value, dict):
        yield path
        for name, inner in value.items():
            free = name in FREE and isinstance(inner, dict)
            if not free or name == "metadata":
                yield from objects(inner, (*path, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from objects(inner, (*path, place))


def at(value, path):
    for step in path:
        value = value[step]
    return value
