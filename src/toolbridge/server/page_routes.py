"""The routes of the page's data; `routes.py` imports them with the first request to one of them."""

from toolbridge.server import (
    model_cards,
    provider_reports,
    request_details,
    request_feed,
    request_rows,
    usage_totals,
)

PAGE_DATA = {
    "cards": model_cards.listed,
    "feed": request_feed.stream,
    "providers": provider_reports.listed,
    "request": request_details.one,
    "requests": request_rows.listed,
    "usage": usage_totals.totals,
}
