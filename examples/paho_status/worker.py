"""A paho-mqtt application in a shared group, which tells the broker how busy it is: see the three lines."""

import argparse
import time

from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

from braidmq.client.paho import report_status  # one


def work(client: Client, userdata: object, message: MQTTMessage) -> None:
    time.sleep(0.02)
    print(message.topic, message.payload.decode(), flush=True)


def subscribe(client: Client, *_told: object) -> None:
    client.subscribe("$share/workers/jobs/#", qos=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="client id")
    parser.add_argument("--port", type=int, default=1883)
    chosen = parser.parse_args()
    client = Client(CallbackAPIVersion.VERSION2, client_id=chosen.name, protocol=MQTTv5)
    client.on_connect = subscribe
    client.on_message = work
    status = report_status(client, chosen.name)  # two
    client.connect("127.0.0.1", chosen.port, properties=status.connect_properties())  # three
    client.loop_forever()


if __name__ == "__main__":
    main()
