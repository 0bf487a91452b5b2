"""The rows of the packet table, one file a family of packets; tests read them through tests.wire.packets."""
