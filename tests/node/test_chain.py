"""The stories of a chain, on the one in this process."""

from tests.node import stories


class TestDiscovery(stories.Discovery):
    pass


class TestMoney(stories.Money):
    pass


class TestRefusals(stories.Refusals):
    pass


class TestDoubt(stories.Doubt):
    pass


class TestTalk(stories.Talk):
    pass
