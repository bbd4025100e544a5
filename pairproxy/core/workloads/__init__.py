"""Workloads for the simulator, made from a random.Random or from the text of a public trace.

bursts   many requests at once, or one after another at a load; unequal lengths
texts    prompts as blocks: what two of them have in common
chains   agents that go step by step, sub-agents, chats; each prompt goes on where the last one ended
traces   the same from recorded sessions, whose text is handed in line by line
"""
