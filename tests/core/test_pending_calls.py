from toolbridge.core.pending_calls import PendingCalls


def pending(*calls):
    found = PendingCalls()
    for id, name in calls:
        found.add(id, name)
    return found


def test_a_call_is_found_by_its_name_and_else_by_order():
    calls = pending(("1", "f"), ("2", "g"), ("3", "g"))
    assert calls.find("g") == "2"
    assert calls.find("unknown") == "1"
    assert calls.find("") == "1"


def test_a_call_with_a_result_is_not_found_again():
    calls = pending(("1", "f"), ("2", "g"), ("3", "g"))
    assert calls.pop("2") == "g"
    assert calls.find("g") == "3"
    assert (calls.pop("1"), calls.pop("3"), calls.pop("4")) == ("f", "g", "")
    assert calls.find("g") == ""
