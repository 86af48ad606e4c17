"""File ids go to the provider that keeps the files, and nowhere else."""

from tests.tables import every_row

from toolbridge.core.messages import Document, Foreign, Image, Origin, Request, Result, Text, Turn
from toolbridge.history.files import own_files

WHERE = Origin("x", "messages.0.content.0")


def request(part, origin: str) -> Request:
    return Request("m", (Turn("user", (part, Text("Read."))),), origin=origin)


def after(part, origin, api, files=None):
    found, losses = own_files(request(part, origin), api, files=files, provider="p")
    return found.turns[0].content[0], [loss.what for loss in losses]


@every_row(
    ("origin", "api", "files", "kept"),
    [
        ("anthropic", "anthropic", None, True),
        ("anthropic", "anthropic", "anthropic", True),
        ("anthropic", "anthropic", "", False),
        ("anthropic", "openai_responses", "openai", False),
        ("openai_chat", "openai_responses", "openai", True),  # OpenAI's APIs share their files
        ("openai_chat", "openai_chat", "", False),
        ("", "openai_chat", "", True),  # made by the library for this provider
    ],
)
@every_row("part", [Image(file_id="f1", source=WHERE), Document(file_id="f1", source=WHERE)])
def test_a_file_stays_with_its_keeper(part, origin, api, files, kept):
    found, lost = after(part, origin, api, files)
    assert (found is part) is kept
    assert lost == ([] if kept else ["messages.0.content.0"])
    assert kept or "f1" not in found.text


@every_row(
    ("part", "kept"),
    [
        (Image(url="https://generativelanguage.googleapis.com/v1beta/files/abc"), False),
        (Document(url="gs://bucket/a.pdf"), False),
        (Document(url="https://a.test/a.pdf"), True),
        (Foreign("gemini", "fileData", {"fileData": {"fileUri": "gs://b/film.mp4"}}), False),
        (Foreign("gemini", "fileData", {"fileData": {"fileUri": "https://youtu.be/x"}}), True),
        (Foreign("anthropic", "container_upload", {"file_id": "f"}), False),
    ],
)
def test_an_address_that_only_google_can_open_is_a_file_too(part, kept):
    found, _ = after(part, "gemini", "openai_chat", "openai")
    assert (found is part) is kept


def test_a_file_inside_a_result_is_found_and_its_title_is_told():
    result = Result("c1", (Document(file_id="f1", title="a.pdf"), Text("x")))
    found, lost = after(result, "openai_responses", "anthropic", "anthropic")
    assert found.content == (
        Text("[file 'a.pdf' is not available: it is kept by another provider]"),
        Text("x"),
    )
    assert len(lost) == 1
