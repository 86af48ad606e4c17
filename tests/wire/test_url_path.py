from tests.tables import every_row

from toolbridge.wire.url_path import quote_path


@every_row(
    ("name", "quoted"),
    [
        ("gemini-2.5-pro", "gemini-2.5-pro"),
        ("models/a:1", "models/a:1"),
        ("a?b#c d%2e", "a%3Fb%23c%20d%252e"),
        ("ü\n\\", "%C3%BC%0A%5C"),
        ("\ud800", "%3F"),
    ],
)
def test_only_what_has_no_meaning_stays(name, quoted):
    assert quote_path(name) == quoted
