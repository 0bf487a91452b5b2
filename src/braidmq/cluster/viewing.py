"""A cluster as one node sees it, as plain data for the operator."""

from typing import Any

from braidmq.cluster.members import Member, Members


def view_of(members: Members, own_state: str, connections: int, now: float) -> dict[str, Any]:
    me = members.me
    own = {
        "node": f"{me.node:016x}",
        "name": me.name,
        "state": own_state,
        "boot": me.boot,
        "version": me.version,
        "keeps": me.keeps,
        "addresses": list(me.addresses),
        "client_address": me.client_address,
        "connections": connections,
    }
    peers = sorted(members, key=lambda member: (member.name, member.node))
    return {
        "self": own,
        "nodes": [_view_of_member(member, now) for member in peers],
        "warnings": [sentence for member in peers for sentence in member.warnings.values()],
    }


def _view_of_member(member: Member, now: float) -> dict[str, Any]:
    return {
        "node": f"{member.node:016x}",
        "name": member.name,
        "state": str(member.state),
        "boot": member.boot,
        "version": member.version,
        "keeps": member.keeps,
        "addresses": list(member.addresses),
        "client_address": member.client_address,
        "connections": member.connections,
        "rtt_s": member.rtt_s,
        "clock_offset_s": member.clock_offset_s,
        "heard_before_s": max(0.0, now - member.heard_at_s),
        "is_holding": member.is_holding,
        "warnings": list(member.warnings.values()),
    }
