from base64 import b64encode

from tests.tables import every_row

from toolbridge.codecs.ollama.media import decode_media
from toolbridge.core.messages import Audio, Image


def base64(data):
    return b64encode(data).decode()


@every_row(
    ("data", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n1234567", "image/png"),
        (b"\xff\xd8\xff\xe0 the rest of it", "image/jpeg"),
        (b"GIF89a then more", "image/gif"),
        (b"RIFF1234WEBPVP8 ", "image/webp"),
        (b"BM then more of it", "image/bmp"),
        (b"something else altogether", ""),
        (b"RIFF1234AVI LIST", ""),
        (b"x", ""),
    ],
)
def test_a_picture_is_known_by_its_first_bytes(data, media_type):
    assert decode_media(base64(data)) == Image(base64(data), media_type)


@every_row(
    ("data", "media_type"),
    [
        (b"RIFF1234WAVEfmt ", "audio/wav"),
        (b"ID3\x04 and more of it", "audio/mpeg"),
        (b"OggS and more of it", "audio/ogg"),
        (b"fLaC and more of it", "audio/flac"),
    ],
)
def test_a_sound_among_the_pictures_is_a_sound(data, media_type):
    assert decode_media(base64(data)) == Audio(base64(data), media_type)


def test_a_data_url_says_its_type_itself():
    assert decode_media("data:image/webp;base64,QUJD") == Image("QUJD", "image/webp")


@every_row("encoded", ["not base64!", "é", "abc", ""])
def test_what_is_no_base64_is_handed_on(encoded):
    assert decode_media(encoded) == Image(encoded)
