"""Publish three messages and read them back. `python examples/client_hello.py [host:port]`"""

import asyncio
import sys

from braidmq.client import Client


async def main(address: str) -> None:
    async with Client(address) as client:
        await client.subscribe("greetings/#", qos=1)
        for word in ("hello", "bonjour", "moin"):
            await client.publish(f"greetings/{word}", word.upper(), qos=1)
        left = 3
        async for message in client.messages():
            print(message.topic, message.payload.decode())
            left -= 1
            if left == 0:
                break


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:1883"))
