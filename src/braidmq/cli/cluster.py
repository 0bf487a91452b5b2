"""`braidmq cluster`: shows a cluster as one of its nodes sees it, and takes nodes in and out of service."""

import json
import urllib.parse
from typing import Annotated, Any, Final

from cyclopts import App, Parameter
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from braidmq.cli.admin_api import HERE, AdminFlags, ask
from braidmq.cli.trace import printable

JsonFlag = Annotated[bool, Parameter(name="--json", negative=(), help="Print the broker's answer as JSON.")]
TopicArgument = Annotated[str, Parameter(metavar="TOPIC", help="The topic of a message.")]
NodeArgument = Annotated[str, Parameter(metavar="NODE", help="A node's name or id, as status shows it.")]

LINKED: Final = frozenset({"live", "draining"})
WHOM: Final = {"is_for_subscribers": "subscribers", "is_for_groups": "shared groups"}

cluster = App(
    name="cluster",
    help="Show a cluster, and take nodes in and out of service.",
    help_flags=["--help"],
    help_epilogue="The broker that is asked must have been started with --admin-port.",
)


@cluster.command
def status(*, api: AdminFlags = HERE, as_json: JsonFlag = False) -> int:
    """Show the nodes, as the one that is asked sees them.

    Exits with 1 if a node is missing or there is a warning.
    """
    found = ask("cluster status", "GET", "/cluster", api)
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        _show_status(found)
    is_well = all(node["state"] in LINKED for node in found["nodes"]) and not found["warnings"]
    return 0 if is_well else 1


@cluster.command
def routes(topic: TopicArgument, /, *, api: AdminFlags = HERE, as_json: JsonFlag = False) -> None:
    """Show where a message of a topic would go from the node that is asked."""
    query = urllib.parse.urlencode({"topic": topic})
    found = ask("cluster routes", "GET", f"/cluster/routes?{query}", api)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    print(f"{found['sessions_here']} sessions of this node")
    for node in found["nodes"]:
        whom = " and ".join(word for key, word in WHOM.items() if node[key])
        print(printable(f"{whom} of {node['name']} ({node['state']})"))


@cluster.command
def drain(*, api: AdminFlags = HERE, as_json: JsonFlag = False) -> None:
    """Send the clients of the node that is asked to the others, and let no new ones in."""
    _tell("drain", api, as_json, "draining; braidmq cluster status shows how many clients are left")


@cluster.command
def undrain(*, api: AdminFlags = HERE, as_json: JsonFlag = False) -> None:
    """Let the node that is asked take clients again."""
    _tell("undrain", api, as_json, "taking clients")


@cluster.command
def rebalance(*, api: AdminFlags = HERE, as_json: JsonFlag = False) -> None:
    """Let every node that has more clients than the mean of all send some to the others."""
    _tell("rebalance", api, as_json, "sending to others what is above the mean")


@cluster.command
def leave(*, api: AdminFlags = HERE, as_json: JsonFlag = False) -> None:
    """Take the node that is asked out of the cluster for good: it drains, says goodbye, and stops."""
    _tell("leave", api, as_json, "leaving; the broker stops when the others have what it had")


@cluster.command
def forget(node: NodeArgument, /, *, api: AdminFlags = HERE, as_json: JsonFlag = False) -> None:
    """Give up a node that won't come back: what waits for it is dropped, and its id isn't let in again."""
    found = ask("cluster forget", "POST", f"/cluster/forget/{urllib.parse.quote(node, safe='')}", api)
    words = f"forgotten: {found['name']} ({found['node']})"
    print(json.dumps(found, indent=2) if as_json else printable(words))


def _tell(what: str, api: AdminFlags, as_json: bool, words: str) -> None:
    found = ask(f"cluster {what}", "POST", f"/cluster/{what}", api)
    print(json.dumps(found, indent=2) if as_json else words)


def _show_status(found: dict[str, Any]) -> None:
    console = Console()
    table = Table(box=SIMPLE_HEAD)
    for heading in ("node", "state", "version", "address"):
        table.add_column(heading, no_wrap=True)
    for heading in ("clients", "round trip", "waiting"):
        table.add_column(heading, justify="right", no_wrap=True)
    for node in found["nodes"]:
        table.add_row(*map(printable, _row(node)))
    console.print(table)
    together = f"{found['size']} of {len(found['nodes'])} nodes work together"
    console.print(f"{together}; routing is {found['routing']}; * is the one that was asked")
    for warning in found["warnings"]:
        console.print(printable(f"warning: {warning}"), markup=False)


def _row(node: dict[str, Any]) -> tuple[str, ...]:
    mark = " *" if node["is_this_node"] else ""
    rtt = "" if node["rtt_ms"] is None else f"{node['rtt_ms']:.2f} ms"
    waiting = "" if node["queued_messages"] is None else str(node["queued_messages"])
    address, clients = next(iter(node["addresses"]), ""), str(node["connections"])
    return f"{node['name']}{mark}", node["state"], node["version"], address, clients, rtt, waiting
