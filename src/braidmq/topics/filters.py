"""Topic filters: what a subscriber may ask for, and the plainest way to tell whether a topic matches.

`matches` is the reference that FilterTrie and TopicTree are tested against. Everything here is linear in the
bytes, without recursion and without regular expressions.
"""

from typing import AnyStr, Final, overload

from braidmq.errors import ProtocolError
from braidmq.topics.names import (
    TOPIC_BYTES_MAX,
    TOPIC_FILTER_INVALID,
    TOPIC_LEVELS_MAX,
    check_levels,
    checked_text,
)

SHARED_PREFIX: Final = "$share/"


def validate_filter(
    filter: str | bytes, *, bytes_max: int = TOPIC_BYTES_MAX, levels_max: int = TOPIC_LEVELS_MAX
) -> None:
    """Raises ProtocolError(TOPIC_FILTER_INVALID) unless `filter` is a filter or a `$share/group/filter`.

    `bytes_max` is for the whole of it, `levels_max` for the filter that the group shares.
    """
    _, inner = split_shared(checked_text(filter, TOPIC_FILTER_INVALID, bytes_max))
    check_levels(inner, TOPIC_FILTER_INVALID, levels_max)
    levels = inner.split(b"/")
    for level in levels:
        if len(level) > 1 and (b"+" in level or b"#" in level):  # [MQTT-4.7.1-1] [MQTT-4.7.1-2]
            raise ProtocolError(TOPIC_FILTER_INVALID, "a wildcard must be a whole level")
    if b"#" in levels[:-1]:
        raise ProtocolError(TOPIC_FILTER_INVALID, "# must be the last level")  # [MQTT-4.7.1-1]


@overload
def split_shared(filter: str) -> tuple[str | None, str]: ...
@overload
def split_shared(filter: bytes) -> tuple[bytes | None, bytes]: ...


def split_shared(filter: str | bytes) -> tuple[str | bytes | None, str | bytes]:
    """(group, inner filter) of a `$share/group/filter`; (None, filter) of any other.

    Raises ProtocolError(TOPIC_FILTER_INVALID) when the group or what follows it is missing or wrong; the
    inner filter itself is not checked.
    """
    if isinstance(filter, str):
        return _split_shared(filter, SHARED_PREFIX, "/", "+", "#")
    return _split_shared(filter, SHARED_PREFIX.encode(), b"/", b"+", b"#")


def _split_shared(
    filter: AnyStr, prefix: AnyStr, slash: AnyStr, plus: AnyStr, hash_sign: AnyStr
) -> tuple[AnyStr | None, AnyStr]:
    if not filter.startswith(prefix):
        return None, filter
    group, _, inner = filter[len(prefix) :].partition(slash)
    if not group:
        raise ProtocolError(TOPIC_FILTER_INVALID, "the name of the shared group is empty")  # [MQTT-4.8.2-1]
    if plus in group or hash_sign in group:  # [MQTT-4.8.2-2]
        raise ProtocolError(TOPIC_FILTER_INVALID, "the name of a shared group has no wildcards")
    if not inner:
        raise ProtocolError(TOPIC_FILTER_INVALID, "the shared group has no filter")
    return group, inner


def matches(filter: str | bytes, topic: str | bytes) -> bool:
    """Whether `filter` (valid, without `$share/group/`) matches `topic`."""
    wanted = (filter.encode() if isinstance(filter, str) else filter).split(b"/")
    levels = (topic.encode() if isinstance(topic, str) else topic).split(b"/")
    if levels[0].startswith(b"$") and wanted[0] in (b"+", b"#"):  # [MQTT-4.7.2-1]
        return False
    for index, level in enumerate(wanted):
        if level == b"#":
            return True  # also when the topic has just ended: `a/#` matches `a`
        if index == len(levels) or level not in (b"+", levels[index]):
            return False
    return len(wanted) == len(levels)
