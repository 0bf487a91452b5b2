"""What must hold in a simulated overlay, each as a function that answers with what is wrong."""

from braidmq.overlay.keys import Kind
from braidmq.overlay.messages import Status
from braidmq.overlay.skipgraph import SkipGraph
from braidmq.overlay.table import Shape, Side
from braidmq.sim.overlay.world import OverlayWorld


def tables_within_bounds(world: OverlayWorld) -> list[str]:
    """At any time: no table is larger than it may be, and none is damaged."""
    wrong = []
    for name, overlay in world.overlays.items():
        for node in overlay.virtual_nodes:
            try:
                node.table.check()
            except AssertionError as error:
                wrong.append(f"table of {node.peer.key!r} at {name}: {error}")
    return wrong


def list_is_sorted(world: OverlayWorld) -> list[str]:
    """Once quiet: everybody's neighbours are those of the sorted list of all live virtual nodes."""
    nodes = {
        node.peer.key: node
        for overlay in world.overlays.values()
        for node in overlay.virtual_nodes
        if node.status is not Status.LEAVING
    }
    order = sorted(nodes)
    wrong = []
    for left, key, right in zip([None, *order], order, [*order[1:], None], strict=False):
        node = nodes[key]
        if node.status is not Status.LINKED:
            wrong.append(f"{key!r} has not joined")
        for side, expected in ((Side.LEFT, left), (Side.RIGHT, right)):
            neighbour = node.table.neighbour(side)
            found = None if neighbour is None else neighbour.key
            if found != expected:
                wrong.append(f"{side.name} of {key!r} is {found!r} instead of {expected!r}")
    return wrong


def levels_are_linked(world: OverlayWorld) -> list[str]:
    """Once quiet and after a period: plain tables hold exactly what a Skip Graph's do."""
    graph = SkipGraph()
    nodes = [node for overlay in world.overlays.values() for node in overlay.virtual_nodes]
    for node in nodes:
        graph.insert(node.peer.key)
    wrong = []
    for node in nodes:
        missing = graph.neighbours(node.peer.key) - set(node.table.keys)
        if node.table.shape is Shape.SKIP_GRAPH and missing:
            wrong.append(f"{node.peer.key!r} doesn't know {sorted(missing)!r}")
    return wrong


def delivered_exactly_once(world: OverlayWorld) -> list[str]:
    """Once quiet: whoever had joined and stayed got every publication, and nobody got one twice."""
    wrong = list(world.violations)
    for publication in world.publications.values():
        when = f"{publication.payload!r}, published at {publication.at_s:.3f}"
        wrong += [f"{name} missed {when}" for name in sorted(publication.expected - publication.hops.keys())]
        wrong += [
            f"{name} got {publication.payload!r} {len(hops)} times"
            for name, hops in publication.hops.items()
            if len(hops) > 1
        ]
    return wrong


def presence_is_known(world: OverlayWorld) -> list[str]:
    """Once quiet: every publisher knows whether its topic has subscribers."""
    wrong = []
    for name, overlay in world.overlays.items():
        for node in overlay.virtual_nodes:
            if node.kind is Kind.PUBLISHER and node.status is Status.LINKED:
                is_wanted = any(world.wants(other, node.topic) for other in world.overlays)
                if node.present is not None and node.present != is_wanted:
                    wrong.append(
                        f"{name} believes that {node.topic} has {'' if node.present else 'no '}subscribers"
                    )
    return wrong
