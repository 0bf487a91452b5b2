"""Shared groups: of all members of `$share/NAME/FILTER`, one gets each message.

    member          what is known of one session that is in groups
    policies        who of a group gets a message
    group           SharedGroup: messages from publication to acknowledgement, with
                    queue, holders, readers, effects and settings
    receiver        a SharedGroup in the running broker: its sessions, and what a store has to know
    registry        all groups of a broker, made as they are configured
    status_reports  what clients say of themselves as members
    state           what is known of a group, as values
"""
