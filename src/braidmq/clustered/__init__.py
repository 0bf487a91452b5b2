"""A broker that is a node of a cluster: joins a `Broker` and a `Cluster`, which don't know each other.

Pure, like both of them: the shell (`net.peers`, or the simulator) moves the bytes of links and the clock.
"""
