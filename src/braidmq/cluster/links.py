"""The links of a node, and which of two to the same peer stays.

Rules: of two starts of a peer the newer one's link stays. Of two links with one start of it, the one that was
dialled by the smaller id; if both were dialled by the same side, the newer, because the dialler has lost the
other. The dialler gives its own dial up while another link stands, so a link in use is left only by somebody
who has lost it. Both ends come to the same decision, whatever arrives first.
"""

from collections.abc import Iterator
from typing import Final

from braidmq.cluster.handshake import Handshake, Hello, RefusalError

UNPROVEN_MAX: Final = 256  # accepted links without a proof; beyond, the oldest has to go


class Link:
    __slots__ = ("dialled", "handshake", "is_open", "number", "opened_s", "source")

    def __init__(
        self, number: int, dialled: str | None, source: str, handshake: Handshake, now: float
    ) -> None:
        self.number = number
        self.dialled = dialled
        self.source = source
        self.handshake = handshake
        self.opened_s = now
        self.is_open = False  # both Welcomes are there

    @property
    def hello(self) -> Hello:
        """What the peer has said; only of a proven link."""
        assert self.handshake.peer is not None
        return self.handshake.peer

    @property
    def is_proven(self) -> bool:
        return self.handshake.is_proven

    @property
    def node(self) -> int | None:
        return self.hello.node if self.is_proven else None


class Links:
    def __init__(self, me: int) -> None:
        self._me = me
        self._links: dict[int, Link] = {}

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links.values())

    def __len__(self) -> int:
        return len(self._links)

    def add(self, link: Link) -> Link | None:
        """The link that has to go for this one, if there is one."""
        unproven = [old for old in self._links.values() if old.dialled is None and not old.is_proven]
        self._links[link.number] = link
        return unproven[0] if link.dialled is None and len(unproven) >= UNPROVEN_MAX else None

    def get(self, number: int) -> Link | None:
        return self._links.get(number)

    def drop(self, link: Link) -> bool:
        return self._links.pop(link.number, None) is not None

    def loser(self, new: Link) -> Link | None:
        """The link to the same peer that has to go for this one; raises RefusalError if this one has to."""
        old = next((one for one in self._links.values() if one is not new and one.node == new.node), None)
        if old is None or old.hello.boot < new.hello.boot:
            return old
        if old.hello.boot > new.hello.boot:
            raise RefusalError("duplicate")
        if new.dialled is not None:
            if old.is_open or old.dialled is not None or self._me > new.hello.node:
                raise RefusalError("twice")
        elif old.dialled is not None and self._me < new.hello.node:
            raise RefusalError("twice")
        return old
