"""Errors of engines that could not parse the answer of their own model, and what is to be done.

The shapes are those of the issues named in each row; the words of the models are our own.
"""

import json
from dataclasses import dataclass

from toolbridge.conformance.client_requests import CaseTool

TEXT, WHOLE, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}


def tool(name: str, *required: str, **properties: dict) -> CaseTool:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return CaseTool(name, f"The tool {name}.", schema)


SEARCH = tool("search", "query", query=TEXT, count=WHOLE)
WRITE = tool("write", "path", "content", path=TEXT, content=TEXT)
EDIT = tool("edit", "file", "old", "new", file=TEXT, old=TEXT, new=TEXT, every=FLAG)
PATCH = tool("apply_patch", "input", input=TEXT)
PYTHON = tool("run_python", "code", code=TEXT)
SHELL = tool("shell", "command", command=TEXT)
TOOLS = (SEARCH, WRITE, EDIT, PATCH, PYTHON, SHELL)

RETRY = "retry"


@dataclass(frozen=True)
class Row:
    """One error: the API that it comes in, and the answer that the client must get."""

    name: str
    api: str
    status: int
    body: str
    """The body of a rejection; with the status 200, the last event of a stream."""
    calls: tuple[tuple[str, dict], ...] = ()
    text: str = ""
    tools: tuple[CaseTool, ...] = TOOLS
    choice: str = ""
    retry: bool = False
    """Whether nothing can be taken, so that the request is sent once more in the next mode."""


def openai(message: str, **fields: object) -> str:
    return json.dumps({"error": {"message": message, **fields}})


def llama(text: str, pos: int = 144) -> str:
    message = f"Failed to parse input at pos {pos}: {text}"
    return openai(message, code=500, type="server_error")


def ollama(raw: str, err: str) -> str:
    return json.dumps({"error": f"error parsing tool call: raw='{raw}', err={err}"})


def groq(
    written: str, message: str = "Failed to call a function. Please adjust your prompt."
) -> str:
    kind = {"type": "invalid_request_error", "code": "tool_use_failed"}
    return openai(f"{message} See 'failed_generation' for more details.", **kind,
                  failed_generation=written)  # fmt: skip


LONG = 'line "of" code\\n\n' * 400
"""Longer than the part of an error that is shown."""
NOT_JSON = "Failed to parse tool call arguments as JSON"
PATCHED = "*** Begin Patch\n*** Update File: it's.php\n@@\n', err=\n*** End Patch"

ROWS = (
    Row(
        "llama.cpp#23838: Python in marks", "openai_chat", 500,
        llama("<|tool_call_start|>[search(query='weather in Oslo', count=5)]<|tool_call_end|>", 395),
        (("search", {"query": "weather in Oslo", "count": 5}),),
    ),
    Row(
        "llama.cpp#24644: XML, parameters in another order", "openai_chat", 500,
        llama('<tool_call>\n<function=write>\n<parameter=content>\n{"a": 1}\n</parameter>\n'
              "<parameter=path>\na.json\n</parameter>\n</function>\n</tool_call>", 1360),
        (("write", {"content": '{"a": 1}', "path": "a.json"}),),
    ),
    Row(
        "openclaw#61838: XML with blanks for newlines", "openai_chat", 500,
        llama("<tool_call> <function=search> <parameter=query> new features </parameter> "
              "<parameter=count> 3 </parameter> </function> </tool_call>", 11967),
        (("search", {"query": "new features", "count": 3}),),
    ),
    Row(
        "llama.cpp#22422: MiniMax, long text with quotes and backslashes", "openai_chat", 500,
        llama('<minimax:tool_call>\n<invoke name="edit">\n<parameter name="every">false</parameter>\n'
              f'<parameter name="file">/a/b.py</parameter>\n<parameter name="old">{LONG}</parameter>\n'
              '<parameter name="new">y</parameter>\n</invoke>\n</minimax:tool_call>'),
        (("edit", {"every": False, "file": "/a/b.py", "old": LONG, "new": "y"}),),
    ),
    Row(
        "llama.cpp#22422 at /v1/messages, whose errors have OpenAI's shape", "anthropic", 500,
        llama('<minimax:tool_call>\n<invoke name="edit">\n<parameter name="file">a</parameter>\n'
              f'<parameter name="old">{LONG}</parameter>\n'
              '<parameter name="new">y</parameter>\n</invoke>\n</minimax:tool_call>'),
        (("edit", {"file": "a", "old": LONG, "new": "y"}),),
    ),
    Row("the same in a stream of /v1/messages", "anthropic", 200,
        json.dumps({"code": 500, "type": "server_error", "message":
                    'Failed to parse input at pos 9: <tool_call>{"name": "search", "arguments": '
                    '{"query": "a"}}</tool_call>'}),
        (("search", {"query": "a"}),)),
    Row("the new text in a stream of /v1/messages", "anthropic", 200,
        json.dumps({"code": 500, "type": "server_error", "message":
                    "The model produced output that does not match the expected peg-native format"}),
        retry=True),
    Row("llama.cpp#20761: a closing tag alone", "anthropic", 500, llama("</tool_call>", 12),
        retry=True),
    Row(
        "llama.cpp#20260: text before the call", "openai_chat", 500,
        llama('I will look.\n\n<tool_call>\n{"name": "search", "arguments": {"query": "a"}}\n'
              "</tool_call>"),
        (("search", {"query": "a"}),), "I will look.",
    ),
    Row("llama.cpp#18675: a mark alone", "openai_chat", 500, llama("<|channel|>", 0), retry=True),
    Row("llama.cpp#18675: nothing", "openai_chat", 500, llama("", 8), retry=True),
    Row(
        "pwilkin/llama.cpp#5: GLM, behind the opening mark", "openai_chat", 500,
        llama("search\n<arg_key>query</arg_key>\n<arg_value>a</arg_value>\n</tool_call>", 12),
        (("search", {"query": "a"}),),
    ),
    Row("llama.cpp#24327: a text, without tools", "openai_chat", 500,
        llama("Total: 12 EUR \ufffd", 0), text="Total: 12 EUR \ufffd", tools=()),
    Row(
        "llama.cpp#25072: the new text, which hides the answer", "openai_chat", 500,
        openai("The model produced output that does not match the expected peg-gemma4 format",
               code=500, type="server_error"),
        retry=True,
    ),
    Row(
        "ollama#17638: an extra bracket, apostrophes, the end mark in the text", "ollama", 500,
        ollama(json.dumps({"input": PATCHED}) + "]", "invalid character ']' after top-level value"),
        (("apply_patch", {"input": PATCHED}),),
    ),
    Row("continue#10221: a bare command, which may be prose as well", "ollama", 500,
        ollama("ls -R\n", "invalid character 'l' looking for beginning of value"), retry=True),
    Row(
        "continue#11783: thoughts", "ollama", 500,
        ollama("We should output it.We can't call the tool's twin again.",
               "invalid character 'W' looking for beginning of value"),
        retry=True,
    ),
    Row(
        "ollama#12064: a bracket in place of a brace", "ollama", 500,
        ollama('{"path":"src/pipe.py","content":"x = 1"]', "invalid character ']' after object"),
        (("write", {"path": "src/pipe.py", "content": "x = 1"}),),
    ),
    Row(
        "ollama#12884: the name is inside", "ollama", 500,
        ollama('{"name":"write","parameters":{"path":"a.ts","content":"// a"}}{',
               "invalid character '{' after top-level value"),
        (("write", {"path": "a.ts", "content": "// a"}),),
    ),
    Row("two tools fit", "ollama", 500,
        ollama('{"query": "a"]', "invalid character ']' after object"),
        tools=(SEARCH, tool("find", "query", query=TEXT)), retry=True),
    Row("two tools fit, but one is named", "ollama", 500,
        ollama('{"query": "a"]', "invalid character ']' after object"),
        (("find", {"query": "a"}),),
        tools=(SEARCH, tool("find", "query", query=TEXT)), choice="find"),
    Row("half a command", "ollama", 500,
        ollama('{"command": "rm -rf /tm', "unexpected end of JSON input"), retry=True),
    Row("ollama#11704: the text is the key", "ollama", 200,
        '{"error parsing tool call":"invalid character \'c\' looking for beginning of value"}',
        retry=True),
    Row("ollama#12380: XML", "ollama", 200,
        '{"error":"XML syntax error on line 7: expected element name after \\u003c"}', retry=True),
    Row("ollama#16810: XML, before the stream", "ollama", 500,
        '{"error":"XML syntax error on line 8: element <function> closed by </parameter>"}',
        retry=True),
    Row("continue#10896: XML of GLM", "ollama", 200,
        '{"error":"failed to parse XML: XML syntax error on line 1: element \\u003ctool_call\\u003e '
        'closed by \\u003c/arg_value\\u003e"}', retry=True),
    Row("ollama#17638 in mid-stream", "ollama", 200,
        ollama('{"input": "a"}]', "invalid character ']' after top-level value"),
        (("apply_patch", {"input": "a"}),)),
    Row(
        "groq-typescript#28: tool_calls in a fence", "openai_chat", 400,
        groq('```\n{\n  "tool_calls": [{"id": "c", "type": "function", "function": {"name": "search"},'
             ' "parameters": {"query": "a"}}]\n}\n```'),
        (("search", {"query": "a"}),),
    ),
    Row("smolagents#1119: name, JSON and a closing tag", "openai_chat", 400,
        groq('search{"query": "SPFMV \\"b\\"", "count": 2016}</function>'),
        (("search", {"query": 'SPFMV "b"', "count": 2016}),)),
    Row("a tag without its end", "openai_chat", 400,
        groq('<function=search{"query": "a"}</function>'), (("search", {"query": "a"}),)),
    Row("opencode#1018: Groq's own words, in a stream", "openai_chat", 200,
        groq("Tool use failed: JSON does not match the expected schema for tool calls"),
        retry=True),
    Row("the same with a call", "openai_chat", 200,
        groq('<function=search>{"query": "a"}</function>'), (("search", {"query": "a"}),)),
    Row("OpenHands#10187: a program", "openai_chat", 400,
        groq("import csv\nbest = None\nprint(best)\n", NOT_JSON),
        (("run_python", {"code": "import csv\nbest = None\nprint(best)\n"}),)),
    Row("aquascope#266: a name and a program", "openai_chat", 400,
        groq('{"name": "run_python", "arguments": import numpy as np\nmm = np.zeros(3)\n"}', NOT_JSON),
        (("run_python", {"code": "import numpy as np\nmm = np.zeros(3)\n"}),)),
    Row("agno#4090: a text", "openai_chat", 400, groq("### Top stories\nAs the day began, …"),
        text="### Top stories\nAs the day began, …"),
    Row("a text where a call was demanded", "openai_chat", 400, groq("### Top stories"),
        choice="required", retry=True),
    Row("ha-groq-cloud-api#20: no text at all", "openai_chat", 400,
        openai("tool call validation failed: parameters for tool search did not match schema: "
               "errors: [`/count`: expected integer, but got string]", code="tool_use_failed"),
        retry=True),
    Row("obsidian-ai-tagger#34: an empty text", "openai_chat", 400, groq(""), retry=True),
    Row("g1#23: JSON mode, a fence", "openai_chat", 400,
        openai("Failed to generate JSON. Please adjust your prompt.", code="json_validate_failed",
               failed_generation='```json\n{\n   "title": "\\u7ed3"\n}\n```'),
        text='{\n   "title": "\\u7ed3"\n}', tools=()),
    Row("vllm#51977: a piece of a header", "openai_chat", 500,
        openai('unexpected tokens remaining in message header: Some("to=functions.search")'),
        retry=True),
    Row(
        "OpenRouter: the error of the provider behind it, as text", "openai_chat", 400,
        openai("Provider returned error", code=400,
               metadata={"raw": groq('<function=search>{"query": "a"}</function>'),
                         "provider_name": "Groq"}),
        (("search", {"query": "a"}),),
    ),
    Row("a tool that was not offered", "openai_chat", 400,
        groq('<function=delete_all>{"path": "/"}</function>'), retry=True),
)  # fmt: skip
