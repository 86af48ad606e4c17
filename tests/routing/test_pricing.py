"""Which price list applies to a route, and the prices that are shown of it."""

import pytest
from tests.tables import every_row

from toolbridge.accounting.cost import Pricing
from toolbridge.accounting.tariff import Rates
from toolbridge.config import ModelConfig, ProviderConfig, RatesConfig
from toolbridge.core import events as ev
from toolbridge.core.codec import Target
from toolbridge.core.stage import Identity
from toolbridge.core.usage import Usage
from toolbridge.routing.pricing import has_price, pricing, rates_of
from toolbridge.routing.route import Route

AT = 1_780_000_000.0
USED = Usage(input=1000, output=10)
GIVEN = ModelConfig(rates=RatesConfig(1.0, 2.0))


def route(url="https://api.openai.com/v1", model="gpt-4o-mini", provider="openai", **fields):
    settings = fields.pop("settings", ModelConfig())
    config = ProviderConfig(**{"api": "openai_chat", "url": url} | fields)
    return Route(provider, config, "", Target(model=model), settings)


LOCAL = "http://127.0.0.1:8080/v1"


@every_row(
    ("one", "priced"),
    [
        (route(), True),
        (route(LOCAL), False),
        (route("http://localhost:8080/v1"), False),
        (route("http://[::1]:8080/v1"), False),
        (route(api="demo", url=""), False),
        (route(api="node", url=""), False),
        (route(LOCAL, settings=GIVEN), True),
        (route(api="demo", url="", settings=GIVEN), True),
    ],
)
def test_models_on_this_machine_have_no_price_list(one, priced):
    assert has_price(one) is priced


async def test_the_prices_of_a_route():
    listed = await rates_of(route(), AT)
    assert listed is not None
    assert 0 < listed.input < listed.output
    assert (
        await rates_of(route(provider="mine", cloud="azure", model="gpt-4o-mini"), AT) is not None
    )
    assert await rates_of(route(model="no-such-model", provider="mine"), AT) is None
    assert await rates_of(route(LOCAL), AT) is None
    assert await rates_of(route(LOCAL, settings=GIVEN), AT) == Rates(1.0, 2.0)


async def test_every_seller_has_its_own_price():
    assert await rates_of(route(provider="groq"), AT) is None  # it does not sell the model
    cheap = await rates_of(route(model="gpt-oss-120b"), AT)
    dear = await rates_of(route(model="gpt-oss-120b", provider="cerebras"), AT)
    assert cheap is not None
    assert dear is not None
    assert cheap.input < dear.input
    named = await rates_of(route(model="gpt-oss-120b", provider="mine", cloud="azure"), AT)
    assert named == cheap


async def test_a_stage_adds_the_cost_where_there_is_a_price_list():
    assert isinstance(await pricing(route(LOCAL), AT), Identity)
    assert isinstance(await pricing(route(), AT), Pricing)
    assert isinstance(await pricing(route(LOCAL, settings=GIVEN), AT), Pricing)


async def test_a_model_is_looked_up_in_a_thread_only_once():
    first = await pricing(route(), AT)
    assert isinstance(first, Pricing)
    work = pricing(route(), AT)
    with pytest.raises(StopIteration) as ended:  # it waits for nothing
        work.send(None)
    assert isinstance(ended.value.value, Pricing)
    assert ended.value.value.feed(ev.UsageReported(USED)) == first.feed(ev.UsageReported(USED))
