"""What is published: a message and its frame, and the will that becomes one."""
