"""`data:` URLs (RFC 2397), in which OpenAI's APIs send images and files."""


def split_data_url(url: str) -> tuple[str, str]:
    """Return the media type and the base64 data; two empty strings for any other URL."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:"):
        return "", ""
    return head.removeprefix("data:").partition(";")[0], data
