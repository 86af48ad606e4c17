"""Every codec folder has the same files with the same names in them."""

import ast
import pkgutil
from importlib import import_module
from inspect import isclass
from pathlib import Path

from tests.tables import every_row

from toolbridge import codecs
from toolbridge.core.codec import Codec, TargetCodec

FILES = {
    "__init__": {"CODEC"},
    "shapes": {"ORIGIN", "SHOWS"},
    "field_names": {"FIELD_NAMES"},
    "quirks": {"Quirks", "read_quirks"},
    "decode_request": {"decode_request"},
    "decode_turns": {"TurnDecoder"},
    "encode_request": {"encode_request"},
    "encode_turns": {"TurnEncoder"},
    "tools": {"decode_tools", "encode_tools", "decode_choice", "encode_choice"},
    "output": {"encode_output", "output_support"},
    "thinking": {"decode_thinking", "encode_thinking"},
    "usage": {"decode_usage", "encode_usage"},
    "rejections": {"decode_rejection", "encode_rejection"},
    "decode_stream": {"StreamDecoder"},
    "encode_stream": {"StreamEncoder", "encode_message"},
}
"""The files of a codec and the names that each defines."""

TARGET_FILES = {
    "__init__": {"CODEC"},
    "shapes": {"ORIGIN"},
    "quirks": {"Quirks", "read_quirks"},
    "encode_request": {"encode_request"},
    "encode_turns": {"TurnEncoder"},
    "tools": {"encode_tools", "encode_choice"},
    "output": {"encode_output", "output_support"},
    "thinking": {"encode_thinking"},
    "usage": {"decode_usage"},
    "rejections": {"decode_rejection"},
    "decode_stream": {"StreamDecoder"},
}
"""The same for an API that providers have and no client uses: Bedrock's Converse."""

CONCERNS = ("turns", "items", "tools", "choice", "thinking", "usage", "rejection", "quirks")
"""What has a file of its own already; `decode_` or `encode_` with one of these would be a second."""

FOLDERS = sorted(found.name for found in pkgutil.iter_modules(codecs.__path__) if found.ispkg)
EVERY_FILE = [
    (name, file) for name in FOLDERS for file in (FILES if name in codecs.names() else TARGET_FILES)
]


def files_of(name: str) -> dict[str, set[str]]:
    return FILES if name in codecs.names() else TARGET_FILES


def folder(name: str) -> Path:
    return Path(codecs.__path__[0]) / name


def module_name(name: str, file: str) -> str:
    return f"toolbridge.codecs.{name}" + ("" if file == "__init__" else f".{file}")


def test_there_are_codecs():
    assert {"anthropic", "gemini", "ollama"} <= set(FOLDERS)
    assert {*FOLDERS} - {*codecs.names()} == {"bedrock"}


@every_row("name", FOLDERS)
def test_a_codec_has_every_file_and_no_other_for_the_same_thing(name):
    found = {file.stem for file in folder(name).glob("*.py")}
    assert sorted(files_of(name).keys() - found) == []
    halves = {f"{way}_{concern}" for way in ("decode", "encode") for concern in CONCERNS}
    assert sorted((found - FILES.keys()) & (halves | {"counts", "server_tools"})) == []


@every_row(("name", "file"), EVERY_FILE)
def test_a_file_defines_the_agreed_names(name, file):
    tree = ast.parse((folder(name) / f"{file}.py").read_text("utf-8"))
    defined = {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)
    } | {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    assert sorted(files_of(name)[file] - defined) == []


@every_row("name", FOLDERS)
def test_the_codec_is_made_of_these_names(name):
    codec = import_module(module_name(name, "__init__")).CODEC
    assert isinstance(codec, Codec if name in codecs.names() else TargetCodec)
    assert codec.name == name
    for file, attribute in (
        ("decode_request", "decode_request"),
        ("encode_request", "encode_request"),
        ("decode_stream", "stream_decoder"),
        ("encode_stream", "stream_encoder"),
        ("encode_stream", "encode_message"),
        ("rejections", "decode_rejection"),
        ("rejections", "encode_rejection"),
    ):
        if file not in files_of(name) or not hasattr(codec, attribute):
            assert not isinstance(codec, Codec)
            continue
        found = getattr(codec, attribute)
        where = found.__module__ if isclass(found) or callable(found) else ""
        assert where == module_name(name, file), attribute


@every_row(("name", "file"), EVERY_FILE)
def test_a_file_has_a_docstring_and_at_most_400_lines(name, file):
    text = (folder(name) / f"{file}.py").read_text("utf-8")
    assert ast.get_docstring(ast.parse(text))
    assert len(text.split("\n")) <= 401
