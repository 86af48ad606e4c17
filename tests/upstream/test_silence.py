"""The pauses after which a silent server is asked again."""

from toolbridge.upstream.silence import FIRST_PAUSE, LONGEST_PAUSE, Silence


def test_the_pauses_grow_up_to_the_longest():
    silence = Silence()
    pauses = []
    for _ in range(6):
        silence.note(100.0, answered=False, took=1.0)
        pauses.append(silence.until - 100.0)
        assert silence.lasts
    assert pauses == [FIRST_PAUSE, 10.0, 20.0, 40.0, LONGEST_PAUSE, LONGEST_PAUSE]


def test_an_answer_and_a_refusal_end_the_silence():
    for end in ({"answered": True, "took": 1.0}, {"answered": False, "took": 0.01}):
        silence = Silence()
        silence.note(100.0, answered=False, took=1.0)
        silence.note(200.0, **end)
        assert not silence.lasts
        assert silence.until == 0.0
        silence.note(300.0, answered=False, took=1.0)
        assert silence.until == 300.0 + FIRST_PAUSE
