"""A malicious host among three, on the chain in this process."""

from tests.node import malicious_stories


class TestMalicious(malicious_stories.Malicious):
    pass
