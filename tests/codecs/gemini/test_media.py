import pytest
from tests.tables import every_row

from toolbridge.codecs.gemini.media import decode_blob, encode_media, guess_type
from toolbridge.codecs.gemini.shapes import Blob
from toolbridge.core.messages import Document, Foreign, Image


@every_row(
    ("url", "kind"),
    [
        ("https://x.org/a.PNG?size=1.5", "image/png"), ("https://x.org/a.jpeg#b", "image/jpeg"),
        ("https://x.org/a", ""), ("gs://b/a.pdf", "application/pdf"), ("", ""),
    ],
)  # fmt: skip
def test_an_address_may_show_what_is_there(url, kind):
    assert guess_type(url) == kind


@pytest.mark.parametrize("data", ["", "no base64!", "//4="])
def test_text_that_cannot_be_read_stays_geminis(data):
    blob = Blob("text/plain", data)
    assert decode_blob(blob, None, {"inlineData": {}}) == Foreign("gemini", "inlineData", {"inlineData": {}})  # fmt: skip


@pytest.mark.parametrize(
    "media",
    [
        Image("AA==", "image/png"),
        Document("AA==", "application/pdf"),
    ],
)
def test_what_is_written_is_read_again(media):
    part = encode_media(media)
    blob = Blob(part["inlineData"]["mimeType"], part["inlineData"]["data"])
    assert decode_blob(blob, None, part) == media


def test_data_without_a_type_is_said_to_be_bytes():
    assert encode_media(Image("AA=="))["inlineData"]["mimeType"] == "application/octet-stream"


def test_an_id_is_no_address():
    assert encode_media(Image(file_id="x")) is None
