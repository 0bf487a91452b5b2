"""The limit: one queue in the middle, and members that take the next message the moment they are free.

It knows how long each message will take and where it would arrive when, and loses no time between two
messages; no broker can know that. Jitter doesn't touch it. Among members that could start at the same time
the message goes to the fastest. It is a limit in practice and not the optimum: to leave a very slow member
idle can be better still.
"""

from braidmq.sim.balance.scenario import Scenario
from braidmq.sim.balance.world import Outcome


def run_ideal(scenario: Scenario) -> Outcome:
    members = scenario.members
    free_s = [member.joins_at_s or float("-inf") for member in members]
    outcome = Outcome.empty(len(scenario.publish_s), len(members))
    for number, (published_s, work) in enumerate(zip(scenario.publish_s, scenario.work, strict=True)):
        best = (float("inf"), float("inf"), 0)
        for index, member in enumerate(members):
            start_s = max(published_s + member.delay_s, free_s[index])
            is_paused = member.pause is not None and member.pause[0] <= start_s < member.pause[1]
            begins_s = member.pause[1] if is_paused and member.pause is not None else start_s
            best = min(best, (begins_s, member.finish_s(start_s, work), index))
        _, done_s, index = best
        taken_s = max(published_s + members[index].delay_s, free_s[index])
        free_s[index] = done_s
        outcome.wait_s[number] = taken_s - published_s
        outcome.completion_s[number] = done_s - published_s
        outcome.member[number] = index
    return outcome
