from typing import TypedDict

class PublishScan(TypedDict):
    has_topic_alias: bool
    topic_alias: int
    topic_alias_offset: int
    has_message_expiry: bool
    message_expiry_s: int
    message_expiry_offset: int
    payload_format: int
    subscription_identifier_count: int
    user_property_count: int

def read_varint_at(data: bytes, offset: int = 0) -> tuple[int, int]: ...
def varint_bytes(value: int) -> bytes: ...
def is_valid_string(data: bytes) -> bool: ...
def scan_publish_properties(block: bytes) -> tuple[int, PublishScan]: ...
