from toolbridge import codecs


def test_a_key_is_a_bearer_and_no_key_is_no_header():
    codec = codecs.load("openai_chat")
    assert codec.authorize("sk") == {"authorization": "Bearer sk"}
    assert codec.authorize("") == {}
