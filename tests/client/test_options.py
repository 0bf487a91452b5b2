"""The options are written down twice, once with defaults and once for type checkers: they must agree."""

from typing import get_type_hints

import pytest

from braidmq.client.calls import make_options, make_subscriptions
from braidmq.client.errors import ConnectRefusedError, reason_name
from braidmq.client.options import OptionChoices, Options
from braidmq.client.packet_ids import IDENTIFIER_MAX, PacketIds
from braidmq.errors import ConfigError
from braidmq.wire import Properties, ReasonCode, Subscription


def test_every_option_is_a_keyword() -> None:
    assert set(OptionChoices.__annotations__) == set(Options.__struct_fields__)


def test_types_agree() -> None:
    import ssl

    from braidmq.client import options

    names = {**vars(options), "ssl": ssl}
    choices, fields = get_type_hints(OptionChoices, names), get_type_hints(Options, names)
    assert [name for name in choices if name != "tls" and choices[name] != fields[name]] == []


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(ConfigError, match="colour"):
        make_options({"colour": 1})  # type: ignore[typeddict-unknown-key]


def test_subscriptions_may_be_mixed() -> None:
    wanted = Subscription("b", 2, no_local=True)
    assert make_subscriptions(["a", wanted], 1) == (Subscription("a", 1), wanted)
    with pytest.raises(ValueError, match="filter"):
        make_subscriptions([], 0)


def test_errors_say_what_the_server_said() -> None:
    error = ConnectRefusedError(ReasonCode.BANNED, Properties(reason_string="go away"))
    assert str(error) == "the server refused the connection: BANNED (0x8A): go away"
    assert reason_name(0xEE) == "0xEE"


class TestPacketIds:
    def test_rising_and_not_reused_at_once(self) -> None:
        ids = PacketIds()
        assert [ids.take() for _ in range(3)] == [1, 2, 3]
        ids.release(2)
        assert ids.take() == 4

    def test_wrapping_around_those_in_use(self) -> None:
        ids = PacketIds()
        for _ in range(IDENTIFIER_MAX):
            ids.take()
        assert ids.take() == 0
        ids.release(7)
        ids.release(5)
        assert [ids.take(), ids.take(), ids.take()] == [5, 7, 0]
        assert len(ids) == IDENTIFIER_MAX
