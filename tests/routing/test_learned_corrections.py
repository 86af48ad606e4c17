"""Corrections that are kept: bounded, and separate for every model, API and server."""

from tests.waiting import until

from toolbridge.config import ProviderConfig
from toolbridge.core.codec import Target
from toolbridge.policy.corrections import Correction
from toolbridge.routing.learned_corrections import LearnedCorrections
from toolbridge.routing.route import Route

DROP = Correction("drop", "temperature")


def route(model: str = "m", api: str = "openai_chat", url: str = "https://h/v1") -> Route:
    return Route("p", ProviderConfig(api=api, url=url), "", Target(model=model))


def test_a_correction_belongs_to_one_model_of_one_server():
    learned = LearnedCorrections()
    learned.add(route(), (DROP,))
    assert learned.of(route()) == (DROP,)
    assert learned.of(route("n")) == ()
    assert learned.of(route(api="anthropic")) == ()
    assert learned.of(route(url="https://other/v1")) == ()


def test_a_limit_of_one_request_is_not_kept():
    learned = LearnedCorrections()
    learned.add(route(), (Correction("clamp", "max_tokens", (5,)),))
    assert learned.of(route()) == ()


def test_the_number_is_bounded():
    learned = LearnedCorrections()
    for number in range(300):
        learned.add(route(f"m{number}"), (DROP,))
    assert learned.of(route("m0")) == ()
    assert learned.of(route("m299")) == (DROP,)
    for number in range(40):
        learned.add(route(), (Correction("drop", f"x{number}"),))
    assert len(learned.of(route())) == 32
    assert Correction("drop", "x39") in learned.of(route())


async def test_a_value_of_another_version_is_ignored():
    class Store:
        async def get(self, *_):
            return b'[{"model": "p/m", "until": 9e9, "correction": {"kind": "brand_new"}}]'

    learned = LearnedCorrections()
    learned.attach(Store(), has_values=True)
    await learned.load()
    assert learned.of(route()) == ()


async def test_what_other_processes_have_learned_is_added():
    class Store:
        kept: bytes | None = None

        async def get(self, *_):
            return self.kept

        async def put(self, _scope, _key, value, **_):
            self.kept = value

    store, one, other = Store(), LearnedCorrections(), LearnedCorrections()
    await other.refresh()  # without a store there is nothing to add
    one.attach(store, has_values=False)
    other.attach(store, has_values=False)
    await other.refresh()
    assert other.of(route()) == ()
    one.add(route(), (DROP,))
    await until(lambda: store.kept)
    await other.refresh()
    assert other.of(route()) == (DROP,)
