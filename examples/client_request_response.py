"""Ask and answer over MQTT 5: response topic and correlation data.

`python examples/client_request_response.py [host:port]`
"""

import asyncio
import sys
from itertools import count

from braidmq.client import Client
from braidmq.wire import Properties


async def serve(client: Client) -> None:
    """Doubles every number it is sent, for ever."""
    async for message in client.messages():
        asked = message.properties
        if asked.response_topic is not None:
            answer = Properties(correlation_data=asked.correlation_data)
            doubled = str(2 * int(message.payload))
            await client.publish(asked.response_topic, doubled, qos=1, properties=answer)


async def ask(client: Client, numbers: list[int]) -> dict[int, int]:
    """Sends all questions at once; the correlation data says which answer is whose."""
    inbox = f"double/answers/{client.client_id}"
    await client.subscribe(inbox, qos=1)
    questions = dict(zip((number.to_bytes(4) for number in count(1)), numbers, strict=False))
    for key, number in questions.items():
        properties = Properties(response_topic=inbox, correlation_data=key)
        await client.publish("double/questions", str(number), qos=1, properties=properties)
    answers: dict[int, int] = {}
    async for message in client.messages():
        key = message.properties.correlation_data or b""
        answers[questions[key]] = int(message.payload)
        if len(answers) == len(questions):
            break
    return answers


async def main(address: str) -> None:
    async with Client(address) as server, Client(address) as client:
        await server.subscribe("double/questions", qos=1)
        serving = asyncio.create_task(serve(server))
        print(await ask(client, [1, 20, 300]))
        serving.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:1883"))
