"""Random histories of mixed clients through the whole core, against a model written from the standard.

Small in `make test`, and as long as there is time in `make hunt`. What it once found is kept below as a story
that anybody can read.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from braidmq.wire import V5, V311
from tests.histories.story import FILTERS, TOPICS, Draft, LastWill, Story
from tests.support.effort import examples

WHO = st.integers(0, 3)
NUMBERS = st.integers(0, 11)
POLICIES = ("adaptive", "round_robin", "random", "sticky", "least_inflight", "hash_topic", "status")
VERSIONS = st.sampled_from((V311, V5))

drafts = st.builds(
    Draft,
    st.integers(0, len(TOPICS) - 1),
    st.sampled_from((0, 0, 0, 1, 2)),
    st.sampled_from((False, False, False, True)),
    st.sampled_from((0, 0, 1, 2)),
    st.sampled_from((None, None, None, 3)),
)
wills = st.one_of(
    st.none(),
    st.none(),
    st.builds(
        LastWill, st.sampled_from(TOPICS), st.integers(0, 2), st.booleans(), st.sampled_from((0.0, 0.0, 4.0))
    ),
)


# How each of the four begins: version, group (none for an ordinary subscription), filter, QoS.
beginnings = st.tuples(VERSIONS, st.sampled_from(("", "g")), st.sampled_from(FILTERS), st.integers(0, 2))


class Histories(RuleBasedStateMachine):
    @initialize(
        policy=st.sampled_from(POLICIES), with_store=st.booleans(), four=st.tuples(*[beginnings] * 4)
    )
    def begin(self, policy: str, with_store: bool, four: tuple[tuple[int, str, str, int], ...]) -> None:
        self.story = Story(policy, with_store=with_store)
        for number, (version, group, topic_filter, qos) in enumerate(four):
            self.story.connect(number, version)
            self.story.subscribe(number, group, topic_filter, qos)

    @rule(
        who=WHO,
        version=VERSIONS,
        clean=st.sampled_from((False, False, True)),
        expiry_s=st.sampled_from((0, 5, 1000)),
        window=st.sampled_from((0, 1, 2)),
        will=wills,
        alias_max=st.sampled_from((0, 2)),
    )
    def connects(
        self, who: int, version: int, clean: bool, expiry_s: int, window: int, will: LastWill | None,
        alias_max: int,
    ) -> None:
        self.story.connect(who, version, clean, expiry_s, window, will, alias_max)

    @rule(
        number=NUMBERS,
        group=st.sampled_from(("", "", "g", "h")),
        topic_filter=st.sampled_from(FILTERS),
        qos=st.integers(0, 2),
        no_local=st.booleans(),
        as_published=st.booleans(),
        handling=st.integers(0, 2),
        identifier=st.sampled_from((0, 0, 7, 300)),
    )
    def subscribes(
        self, number: int, group: str, topic_filter: str, qos: int, no_local: bool, as_published: bool,
        handling: int, identifier: int,
    ) -> None:
        self.story.subscribe(
            number, group, topic_filter, qos, no_local, as_published, handling, identifier
        )

    @rule(number=NUMBERS, which=NUMBERS)
    def unsubscribes(self, number: int, which: int) -> None:
        self.story.unsubscribe(number, which)

    @rule(number=NUMBERS, topic=st.integers(0, 2), count=st.integers(1, 4))
    def publishes_plainly(self, number: int, topic: int, count: int) -> None:
        """QoS 0, nothing else, and several in one piece: what the fast lane takes."""
        self.story.publish(number, [Draft(topic, 0)] * count)

    @rule(
        number=NUMBERS,
        drafts=st.lists(drafts, min_size=1, max_size=5),
        chunk=st.sampled_from((5, 30, 10_000)),
        hesitates=st.booleans(),
    )
    def publishes(self, number: int, drafts: list[Draft], chunk: int, hesitates: bool) -> None:
        self.story.publish(number, drafts, chunk, hesitates)

    @rule(number=NUMBERS)
    def repeats_qos2(self, number: int) -> None:
        self.story.repeat_qos2(number)

    @rule(number=NUMBERS)
    def releases(self, number: int) -> None:
        self.story.release(number)

    @rule(number=NUMBERS, refuses=st.booleans())
    def acknowledges(self, number: int, refuses: bool) -> None:
        self.story.acknowledge(number, refuses)

    @rule(number=NUMBERS)
    def completes(self, number: int) -> None:
        self.story.complete(number)

    @rule(number=NUMBERS)
    def answers_wrongly(self, number: int) -> None:
        self.story.answer_wrongly(number)

    @rule(number=NUMBERS, is_slow=st.booleans(), acknowledges=st.booleans())
    def changes_mood(self, number: int, is_slow: bool, acknowledges: bool) -> None:
        self.story.change_mood(number, is_slow, acknowledges)

    @rule(is_lazy=st.booleans())
    def store_changes_its_mood(self, is_lazy: bool) -> None:
        self.story.change_store(is_lazy)

    @rule(number=NUMBERS)
    def vanishes(self, number: int) -> None:
        self.story.vanish(number)

    @rule(number=NUMBERS, with_will=st.booleans())
    def says_goodbye(self, number: int, with_will: bool) -> None:
        self.story.say_goodbye(number, with_will)

    @rule(seconds=st.sampled_from((1, 2, 6)))
    def time_passes(self, seconds: int) -> None:
        self.story.let_time_pass(seconds)

    def teardown(self) -> None:
        if hasattr(self, "story"):
            self.story.finish()


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=examples(60), stateful_step_count=30)


def test_a_group_gets_one_copy_whatever_versions_its_members_and_the_publisher_speak() -> None:
    story = Story()
    story.connect(0, V5)
    story.connect(1, V311)
    story.connect(2, V311)
    story.subscribe(1, "g", "#", 0)
    story.subscribe(2, "", "#", 0)
    story.publish(0, [Draft(0, 0)] * 3)
    story.finish()


def test_what_is_retained_after_a_subscription_comes_once_however_late_it_is_read() -> None:
    story = Story()
    story.connect(0, V5)
    story.connect(1, V5, window=1)
    story.publish(0, [Draft(0, 1, retain=True)])
    story.change_mood(1, is_slow=True, acknowledges=False)
    story.subscribe(1, "", "a", 1)
    story.subscribe(1, "", "a/b", 0)
    story.publish(0, [Draft(1, 0, retain=True)])
    story.finish()
