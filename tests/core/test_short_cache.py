from toolbridge.core.short_cache import LONGEST, cache_short


def test_a_short_text_is_worked_out_once_and_a_long_one_every_time():
    asked: list[int] = []

    @cache_short(2)
    def size(text: str) -> int:
        asked.append(len(text))
        return len(text)

    for length in (1, 1, LONGEST, LONGEST, LONGEST + 1, LONGEST + 1):
        assert size("x" * length) == length
    assert asked == [1, LONGEST, LONGEST + 1, LONGEST + 1]
