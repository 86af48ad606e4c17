from tests.tables import every_row

from toolbridge.core.data_url import split_data_url


@every_row(
    ("url", "expected"),
    [
        ("data:image/png;base64,AAAA", ("image/png", "AAAA")),
        ("data:;base64,AAAA", ("", "AAAA")),
        ("https://example.com/a,b", ("", "")),
        ("data:image/png", ("", "")),
        ("", ("", "")),
    ],
)
def test_a_data_url_is_split(url, expected):
    assert split_data_url(url) == expected
