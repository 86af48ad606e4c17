"""A scripted MCP server over stdio: `python mcp_program.py [FLAG …]`; its tools are its faults."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

TOOLS = [
    {"name": "echo", "description": "Return the arguments", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}, "annotations": {"readOnlyHint": True}},
    {"name": "crash", "inputSchema": {"type": "object"}},
    {"name": "hang", "inputSchema": {"type": "object"}},
    {"name": "image", "inputSchema": {"type": "object"}},
    {"name": "everything", "inputSchema": {"type": "object"}},
    {"name": "fail", "inputSchema": {"type": "object"}},
    {"name": "reject", "inputSchema": {"type": "object"}},
    {"name": "invalid", "inputSchema": {"type": "object"}},
    {"name": "large", "inputSchema": {"type": "object"}},
    {"name": "huge_line", "inputSchema": {"type": "object"}},
    {"name": "env", "inputSchema": {"type": "object"}},
    {"name": "ask", "inputSchema": {"type": "object"}},
    {"name": "change", "inputSchema": {"type": "object"}},
    {"name": "cancelled", "inputSchema": {"type": "object"}},
    {"name": "search", "inputSchema": {"type": "object"}},
    {"name": "block", "inputSchema": {"type": "object"}},
    {"name": "x" * 300},
    {"description": "without a name"},
]  # fmt: skip
PNG = "iVBORw0KGgo="
FLAGS = set(sys.argv[1:])
heard = []


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def call(number, name, arguments):
    match name:
        case "echo":
            return text(json.dumps(arguments))
        case "crash":
            sys.stderr.write("Traceback: the reason of the crash\n")
            sys.stderr.flush()
            os._exit(3)
        case "block":  # serves one call at a time, and this one never ends
            return time.sleep(600)
        case "hang" | "cancelled":
            return None if name == "hang" else text(json.dumps(heard))
        case "image":
            return {
                "content": [
                    {"type": "text", "text": "here"},
                    {"type": "image", "data": PNG, "mimeType": "image/png"},
                ]
            }
        case "everything":
            return {
                "content": [
                    {"type": "audio", "data": PNG, "mimeType": "audio/wav"},
                    {"type": "resource_link", "uri": "file:///a", "name": "A"},
                    {"type": "resource", "resource": {"uri": "file:///b", "text": "bb"}},
                    {
                        "type": "resource",
                        "resource": {"uri": "file:///c", "blob": PNG, "mimeType": "image/png"},
                    },
                    {
                        "type": "resource",
                        "resource": {
                            "uri": "file:///d",
                            "blob": PNG,
                            "mimeType": "application/zip",
                        },
                    },
                    {"type": "hologram"},
                    "nonsense",
                ]
            }
        case "fail":
            return {**text("it did not work"), "isError": True}
        case "large":
            return {
                "content": [
                    {"type": "text", "text": "word " * 100_000},
                    {"type": "image", "data": "A" * 400_000, "mimeType": "image/png"},
                ]
            }
        case "huge_line":
            return text("x" * (17 << 20))
        case "env":
            return text(
                json.dumps(
                    {
                        "names": sorted(os.environ),
                        "mine": os.environ.get("MINE"),
                        "cwd": str(Path.cwd()),
                        "pid": os.getpid(),
                    }
                )
            )
        case "change":
            TOOLS.append({"name": "added", "inputSchema": {"type": "object"}})
            send(method="notifications/tools/list_changed")
            return text("changed")
        case "search":
            return {
                "content": [],
                "structuredContent": {
                    "results": [
                        {"url": "https://e.org/1", "title": arguments["query"], "text": "t"}
                    ]
                },
            }
        case _:
            return {**text(f"Unknown tool: {name}"), "isError": True}


def answer(message):
    method, number = message["method"], message.get("id")
    params = message.get("params", {})
    match method:
        case "initialize":
            version = "2099-01-01" if "--future" in FLAGS else params["protocolVersion"]
            if "--old" in FLAGS:
                version = "2024-11-05"
            if "--stateless" in FLAGS:
                send(id=number, error={"code": -32022, "message": "unsupported version"})
                return
            send(
                id=number,
                result={
                    "protocolVersion": version,
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "s", "version": "1"},
                },
            )
        case "tools/list":
            if "--stateless" in FLAGS and "_meta" not in params:
                send(id=number, error={"code": -32600, "message": "no _meta"})
                return
            at = int(params.get("cursor", 0))
            page = {"tools": TOOLS[at : at + 5]}
            if at + 5 < len(TOOLS):
                page["nextCursor"] = str(at + 5)
            send(id=number, result=page)
        case "tools/call" if params["name"] == "reject":
            send(id=number, error={"code": -32000, "message": "rejected"})
        case "tools/call" if params["name"] == "invalid":
            send(id=number, error={"code": -32602, "message": "bad arguments"})
        case "tools/call" if params["name"] == "ask":
            send(method="notifications/progress", params={"progressToken": 1, "progress": 1})
            send(id="s1", method="ping")
            send(id="s2", method="sampling/createMessage", params={})
            answers = [json.loads(sys.stdin.readline()) for _ in range(2)]
            send(id=number, result=text(json.dumps(answers)))
        case "tools/call":
            result = call(number, params["name"], params["arguments"])
            if result is not None:
                send(id=number, result=result)
        case _:
            heard.append(message)


def main():
    if "--dead" in FLAGS:
        sys.stderr.write("cannot start\n")
        sys.exit(7)
    if "--silent" in FLAGS:
        time.sleep(600)
    if "--child" in FLAGS:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        sys.stderr.write(f"child {child.pid}\n")
        sys.stderr.flush()
    if "--garbage" in FLAGS:
        sys.stdout.write('Welcome!\n{broken\n[1]\n\n"text"\n')
    if "--stubborn" in FLAGS:
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message:
            answer(message)
    if "--stubborn" in FLAGS:
        time.sleep(600)


if __name__ == "__main__":
    main()
