"""Headers of a request to a provider, from several layers."""

from toolbridge.routing.sources import merged_headers


def test_a_later_layer_replaces_a_header_whatever_its_case():
    assert merged_headers({"X-A": "1", "x-b": "2"}, {"x-a": "3"}) == {"x-a": "3", "x-b": "2"}


def test_betas_of_all_layers_are_joined_without_repeats():
    layers = ({"anthropic-beta": "a, b", "x-c": "q,r"}, {"Anthropic-Beta": "b,c", "x-c": "s"})
    assert merged_headers(*layers) == {"anthropic-beta": "a,b,c", "x-c": "s"}


def test_an_empty_beta_is_left_out_of_the_list():
    assert merged_headers({"anthropic-beta": "a,,"})["anthropic-beta"] == "a"
