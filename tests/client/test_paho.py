"""paho-mqtt applications report their status: against a broker that notes what comes, and ours."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from paho.mqtt.client import Client, MQTTMessage, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties

from braidmq.client.paho import PahoStatus, report_status
from braidmq.errors import ConfigError
from braidmq.wire import Properties, Puback, Publish
from braidmq.wire.status import StatusReport, parse_status
from tests.client.fake_broker import FakeBroker
from tests.client.model_server import ModelServer
from tests.client.waiting import eventually

AGREES = Properties(user_properties=(("status-ping", "publish"),))


@pytest.fixture
def curious() -> Iterator[FakeBroker]:
    with FakeBroker(ModelServer(AGREES)) as broker:
        yield broker


class Application:
    """What somebody might have written with paho: one message at a time, as long as it is held."""

    def __init__(self, protocol: int = MQTTv5) -> None:
        self.client = Client(CallbackAPIVersion.VERSION2, client_id="worker", protocol=protocol)
        self.client.on_message = self.on_message
        self.client.on_connect = lambda client, *_told: client.subscribe("$share/g/t", qos=1)
        self.go_on = threading.Event()
        self.go_on.set()
        self.begun = 0
        self.work_s = 0.0

    def on_message(self, client: Client, userdata: object, message: MQTTMessage) -> None:
        self.begun += 1
        self.go_on.wait(10.0)
        time.sleep(self.work_s)

    @contextmanager
    def running(self, broker: FakeBroker, status: PahoStatus) -> Iterator[None]:
        properties = status.connect_properties() if self.client.protocol == MQTTv5 else None
        self.client.connect("127.0.0.1", broker.port, properties=properties)
        self.client.loop_start()
        try:
            eventually(lambda: bool(broker.model.subscribes))
            yield
        finally:
            self.go_on.set()
            self.client.disconnect()
            self.client.loop_stop()
            status.stop()


def reports(broker: FakeBroker) -> list[StatusReport]:
    def read() -> list[StatusReport]:
        published = [packet for packet in broker.model.taken if packet.topic == "$load/worker"]
        found = [parse_status(packet.payload) for packet in published]
        assert all(packet.qos == 0 and not packet.retain for packet in published)
        return [report for report in found if isinstance(report, StatusReport)]

    return broker.call(read)


def send(broker: FakeBroker, count: int) -> None:
    broker.call(lambda: [broker.model.publish(Publish("t", b"x" * 50, 1)) for _ in range(count)])


def test_the_question_in_connect(curious: FakeBroker) -> None:
    application = Application()
    own = PahoProperties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    own.UserProperty = [("mine", "1")]
    status = report_status(application.client, "worker", acks_when_processed=False)
    assert status.connect_properties(own).UserProperty == [
        ("mine", "1"), ("status-ping", "publish"), ("status-events", "1"),
    ]  # fmt: skip
    status = report_status(Application().client, "worker")
    assert ("ack-mode", "processed") in status.connect_properties().UserProperty


def test_queue_and_work_are_reported(curious: FakeBroker) -> None:
    application = Application()
    with application.running(curious, report_status(application.client, "worker", interval_s=0.05)):
        eventually(lambda: bool(reports(curious)))
        assert reports(curious)[0] == StatusReport(0, 0.0, 0, 0)
        application.work_s = 0.03
        send(curious, 9)
        eventually(lambda: reports(curious)[-1].processed == 9)
        assert all(report.processing_s >= 0.03 for report in reports(curious) if report.processing_s)
        queues = [report.queue for report in reports(curious)]
        assert 5 <= max(queues) <= 9  # from bytes, and read while they come
        assert queues[-1] == 0
        eventually(lambda: len(curious.call(lambda: curious.model.finished)) == 9)


def test_acknowledgements_come_after_the_work(curious: FakeBroker) -> None:
    """Which is what we declare for paho."""
    application = Application()
    application.go_on.clear()
    with application.running(curious, report_status(application.client, "worker")):
        send(curious, 1)
        eventually(lambda: application.begun == 1)
        assert not any(isinstance(packet, Puback) for packet in curious.model.received)
        application.go_on.set()
        eventually(lambda: any(isinstance(packet, Puback) for packet in curious.model.received))


def test_a_broker_that_does_not_answer_gets_no_report(fake: FakeBroker) -> None:
    application = Application()
    with application.running(fake, report_status(application.client, "worker", interval_s=0.01)):
        send(fake, 5)
        eventually(lambda: len(fake.call(lambda: fake.model.finished)) == 5)
    assert reports(fake) == []


def test_mqtt_3_reports_where_it_is_told_to(fake: FakeBroker) -> None:
    application = Application(MQTTv311)
    status = report_status(application.client, "worker", interval_s=0.05, asks=False)
    with application.running(fake, status):
        eventually(lambda: bool(reports(fake)))


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match="asks=False"):
        report_status(Application(MQTTv311).client, "worker")
    with pytest.raises(ConfigError, match="on_message"):
        report_status(Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5), "worker")


def test_an_exception_in_the_callback_is_the_applications(curious: FakeBroker) -> None:
    application = Application()

    def fail(client: Client, userdata: object, message: MQTTMessage) -> None:
        raise ValueError("no")

    status = report_status(application.client, "worker")
    with pytest.raises(ValueError, match="no"):
        status.measured(fail)(application.client, None, MQTTMessage(topic=b"t"))
