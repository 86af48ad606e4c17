from toolbridge.codecs.openai_chat import shapes


def test_every_reason_that_is_written_is_read():
    assert {shapes.STOPS[theirs] for theirs in shapes.FINISH_REASONS.values()} <= set(
        shapes.FINISH_REASONS
    )
