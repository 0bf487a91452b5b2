"""Shared subscriptions under load: the broker's own policies and groups against simulated members.

    scenario      what happens: publications, members, network; named and validation: which there are
    methods       what is compared: a policy, and the signals that it gets
    world         one run, event by event;  ideal: the central queue that nothing can beat by much
    thesis        the thesis's two scenarios, figures 43 to 47 and tables 7 and 8
    printed       the numbers of the thesis and of the reference tables;  verdicts: whether ours agree
    experiment    `braidmq sim balance`: runs, writes, draws and judges
"""
