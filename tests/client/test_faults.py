"""Networks that stall, cut and drip, brokers that are killed; and the proxy and leak checks themselves."""

import asyncio
import threading
from collections import Counter
from pathlib import Path

import pytest

from braidmq.client import BlockingClient, Client, RequestTimeoutError
from tests.client.conftest import RunningBroker
from tests.client.fake_broker import FakeBroker
from tests.client.waiting import eventually, until
from tests.faults import FaultProxy, FaultProxyThread
from tests.leaks import no_leaked_threads_or_files, no_leaks
from tests.support.broker import start_braidmq

QUICK = {"backoff_min_s": 0.01, "backoff_max_s": 0.05}


class TestClients:
    @pytest.mark.parametrize("cut_after", [1, 5, 8, 13, 21, 34, 55, 89])
    async def test_broken_at_any_byte(self, broker: RunningBroker, name: str, cut_after: int) -> None:
        """Also in the middle of CONNACK, SUBACK or a message: in the end all is there, QoS 2 once."""
        async with FaultProxy(broker.host, broker.port) as proxy:
            proxy.cut_after(to_client=cut_after)
            healing = asyncio.create_task(self.heal_after_two(proxy))
            kept = {"client_id": name, "clean_start": False, "session_expiry_s": 600}
            async with Client(proxy.address, connect_patience_s=20, **kept, **QUICK) as client:
                publishes = (client.publish(f"{name}/x", b"%d" % n, qos=1 + n % 2) for n in range(6))
                calls = [
                    asyncio.create_task(call) for call in (client.subscribe(f"{name}/#", qos=2), *publishes)
                ]
                await asyncio.gather(healing, *calls)
                await client.publish(f"{name}/x", b"end", qos=2)
                got: Counter[bytes] = Counter()
                async for message in client.messages():
                    got[message.payload] += 1
                    if message.payload == b"end":
                        break
                assert all(count == 1 for payload, count in got.items() if payload in (b"1", b"3", b"5"))

    async def heal_after_two(self, proxy: FaultProxy) -> None:
        await until(lambda: proxy.accepted >= 2)
        proxy.cut_after()

    async def test_a_stalled_network_is_given_up(self, fake: FakeBroker) -> None:
        async with FaultProxy("127.0.0.1", fake.port) as proxy:
            options = {"keep_alive_s": 1, "ping_timeout_s": 0.1, "connect_timeout_s": 0.2}
            async with Client(proxy.address, **options, **QUICK) as client:
                proxy.stall()
                with pytest.raises(RequestTimeoutError):
                    await client.publish("t", b"x", qos=1, timeout_s=0.05)
                await until(lambda: not client.connected)
                proxy.go_on()
                await client.wait_connected()
                await client.publish("t", b"y", qos=1)
                assert {packet.payload for packet in fake.model.taken} == {b"x", b"y"}

    async def test_a_network_that_comes_and_goes(self, fake: FakeBroker) -> None:
        async with FaultProxy("127.0.0.1", fake.port) as proxy:
            async with Client(proxy.address, clean_start=False, session_expiry_s=60, **QUICK) as client:
                for number in range(20):
                    proxy.refuse(number % 3 == 0)
                    proxy.cut()
                    publishing = asyncio.create_task(client.publish("t", b"%d" % number, qos=2))
                    await asyncio.sleep(0)
                    proxy.refuse(False)
                    await publishing
            payloads = [packet.payload for packet in fake.model.taken]
            assert payloads == [b"%d" % number for number in range(20)]

    def test_a_broker_that_is_killed_and_comes_back(self, name: str) -> None:
        """In memory only, so its sessions are gone: subscriptions are renewed and QoS 1 is sent again."""
        first, second = start_braidmq(), start_braidmq()
        try:
            with (
                FaultProxyThread("127.0.0.1", first.port) as faults,
                BlockingClient(faults.address, client_id=name, **QUICK) as client,
            ):
                client.subscribe(name, qos=1)
                first.process.kill()
                faults.proxy.target = ("127.0.0.1", second.port)
                client.publish(name, b"hello again", qos=1)
                assert client.receive_batch(1, timeout_s=20).payloads == [b"hello again"]
        finally:
            first.stop()
            second.stop()


class TestProxy:
    def test_a_thread_for_blocking_tests(self, fake: FakeBroker) -> None:
        with (
            FaultProxyThread("127.0.0.1", fake.port) as faults,
            BlockingClient(faults.address, **QUICK) as client,
        ):
            faults.call(lambda proxy: proxy.drip(2))
            client.publish("t", b"drop by drop", qos=1)
            assert faults.proxy.connections == 1
            faults.call(FaultProxy.cut)
            client.publish("t", b"after", qos=1)
            assert faults.proxy.accepted == 2

    async def test_cut_after_counts_bytes_to_the_server(self, fake: FakeBroker) -> None:
        async with FaultProxy("127.0.0.1", fake.port) as proxy:
            proxy.cut_after(to_server=3)
            reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
            writer.write(b"123456")
            with pytest.raises(ConnectionError):
                await reader.readexactly(1)
            writer.close()


class TestLeakChecks:
    async def test_a_task_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tests.leaks.PATIENCE_S", 0.0)
        with pytest.raises(AssertionError, match="task"):
            async with no_leaks():
                task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()

    def test_a_file_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tests.leaks.PATIENCE_S", 0.0)
        with pytest.raises(AssertionError, match="/dev/null"), no_leaked_threads_or_files():
            file = Path("/dev/null").open()  # noqa: SIM115
        file.close()

    def test_a_thread_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tests.leaks.PATIENCE_S", 0.0)
        over = threading.Event()
        thread = threading.Thread(target=over.wait, name="forgotten")
        with pytest.raises(AssertionError, match="forgotten"), no_leaked_threads_or_files():
            thread.start()
        over.set()
        thread.join()

    def test_what_ends_by_itself_is_no_leak(self) -> None:
        over = threading.Event()
        with no_leaked_threads_or_files():
            threading.Thread(target=over.wait).start()
            threading.Timer(0.05, over.set).start()
        eventually(over.is_set)
