"""Why a link is ended on purpose, and what the operator should do about it, on either side."""

from typing import Final, NamedTuple

from braidmq.cluster.effects import Level


class Why(NamedTuple):
    level: Level
    refusing: str  # the line on the node that ends the link; {peer} is who was refused
    refused: str  # the line on the node that is told


_UPGRADE = "upgrade the older one, a version at a time"
_COPY = "don't copy or roll back a data directory; remove node.json from the copy"
_SECRET = "has another cluster name or secret: give both nodes the same [cluster] name and secret file"

GOODBYES: Final[dict[str, Why]] = {
    "cluster": Why("error", "{peer} " + _SECRET, "{peer} " + _SECRET),
    "proof": Why(
        "error",
        "{peer} could not prove that it knows the secret: somebody else is at the links' port",
        "{peer} did not accept the proof of the secret: give both nodes the same secret file",
    ),
    "protocol": Why(
        "error",
        "{peer} speaks no protocol of links that this version knows: " + _UPGRADE,
        "{peer} speaks no protocol of links that this version knows: " + _UPGRADE,
    ),
    "clock": Why(
        "error",
        "the clock of {peer} is more than 60 s off from this node's: set both by NTP",
        "{peer} says that the clocks are more than 60 s apart: set both by NTP",
    ),
    "full": Why(
        "error",
        "{peer} is one more than peers_max: forget members that are gone, or raise peers_max",
        "{peer} has as many members as peers_max allows: forget members that are gone, or raise peers_max",
    ),
    "forgotten": Why(
        "warning",
        "{peer} was forgotten by the operator: empty its data directory, and it joins as a new node",
        "{peer} says that this node was forgotten: empty the data directory, and it joins as a new node",
    ),
    "duplicate": Why(
        "error",
        "{peer} uses the id of a node that has started since, or runs elsewhere: " + _COPY,
        "{peer} knows another process with this node's id: " + _COPY,
    ),
    "alive": Why(
        "warning",
        "{peer} uses the id of a node that is linked, and is refused while that one is heard: " + _COPY,
        "{peer} hears another process with this node's id; unless that has just ended: " + _COPY,
    ),
    "myself": Why(
        "info",
        "{peer} is this node itself; it isn't dialled again",
        "{peer} is this node itself; it isn't dialled again",
    ),
    "left": Why("info", "{peer} was told that this node has left the cluster", "{peer} has left the cluster"),
    "resting": Why(
        "warning",
        "{peer} broke the rules of a link five times within a minute, and is refused for one: see its log",
        "{peer} refuses this node for a minute, because it broke the rules of a link five times: upgrade "
        "both to one version, and report it",
    ),
    "order": Why(
        "warning",
        "{peer} does not speak as a node of a cluster: see who connects to the links' port",
        "{peer} does not take this node for one of a cluster: see what is at its links' port",
    ),
    "fault": Why(
        "warning",
        "",  # told with what was wrong
        "{peer} found something wrong with what this node said: upgrade both to one version, see its log",
    ),
    "busy": Why(
        "warning",
        "{peer} waited behind too many unproven connections: see what floods the links' port",
        "{peer} has too many unproven connections; this node will try again",
    ),
    "late": Why(
        "warning",
        "{peer} did not finish the handshake in time; this node will try again",
        "{peer} waited too long for this node's part of the handshake; this node will try again",
    ),
    # A matter of every day, which nobody has to do anything about.
    "twice": Why("info", "", ""),
    "newer": Why("info", "", ""),
    "silent": Why("info", "", ""),
}

UNKNOWN: Final = Why("warning", "", "{peer} has ended the link for a reason that this version doesn't know")


def why(reason: str) -> Why:
    return GOODBYES.get(reason, UNKNOWN)
