"""The admin port: this node's own JSON, on loopback, apart from the engines' ports.

::

    server   the port: who may ask, and change; /status /report /requests/ID /health /ready
    view     what is told there;  explaining: one request;  live: /events, the same as it changes
    moment -> reporting    what is known now, copied -> runs and their reports, reckoned in a thread
    holdings -> differences -> matrix    who holds what -> what differs -> /models
    advising   /advice;  runs: /runs;  pages: /models and /openapi.json, by whoever makes them
"""
