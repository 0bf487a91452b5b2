"""`braidmq load balance`: shared subscriptions measured live, with the simulator's scenarios.

    plan       who is measured under what: contenders and trials; pure
    records    what a member notes of each message, as bytes
    member     the process of one subscriber: a real client, whose work is real waiting
    brokers    the broker processes: ours with each policy, and Mosquitto
    run        one trial: starts the processes, publishes on time, breaks what is to break
    outcome    who got what, who waited how long, what was lost; pure
    report     tables and verdicts; figure: the same drawn

**Wait** is the thesis's latency: from the moment the publisher hands a message to its socket to the moment
the member's application begins to work on it. Both are read from the one monotonic clock of the machine, so
it needs no agreement between clocks and holds only where all processes run on one machine.
"""
