from toolbridge import codecs
from toolbridge.codecs import ollama


def test_the_codec_is_found_by_its_name():
    assert codecs.load("ollama") is ollama.CODEC
    assert ollama.CODEC.name == "ollama"
    assert ollama.CODEC.content_type == "application/x-ndjson"


def test_a_key_goes_as_a_bearer_and_no_key_as_nothing():
    assert ollama.authorize("k") == {"authorization": "Bearer k"}
    assert ollama.authorize("") == {}
