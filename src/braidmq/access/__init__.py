"""Who is let in and what they may do: passwords, tokens, rules. Pure decisions, without files or sockets."""
