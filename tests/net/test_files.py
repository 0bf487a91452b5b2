"""How many sockets there may be: the limit of open files, with some kept back for the store."""

from braidmq.net.files import FILES_KEPT_BACK, shortage, sockets_within


def test_some_files_are_kept_back() -> None:
    assert sockets_within(1024, 65_536) == 1024 - FILES_KEPT_BACK
    assert sockets_within(1_048_576, 65_536) == 65_536
    assert sockets_within(None, 65_536) == 65_536
    assert sockets_within(10, 65_536) == 1


def test_a_limit_that_can_not_be_reached_is_told_in_one_line() -> None:
    assert shortage(1_048_576, 65_536) is None
    assert shortage(None, 65_536) is None
    told = shortage(1024, 65_536)
    assert told is not None
    assert told.startswith("[limits] connections_max (65536) is more than the operating system allows")
    assert "\n" not in told
