"""The two ports that carry requests, and the way a reply takes back.

client_port.py   the engine's well-known port, loopback, plain HTTP: gate -> dialect -> dispatcher -> forward
peer_port.py     mutual TLS: inference for this node's engines, and state documents; nothing else
gate.py          Host and Origin: no web page and no rebound name gets in
unloading.py     unloading a model also where this node's requests made peers load it
cors.py          what web pages are told: Ollama's rules
body.py          reading a request body within its limits
forward.py       one attempt: request out, reply back, chunk by chunk, unchanged
tunnel.py        a WebSocket: raw bytes between a client and the engine of its port
downstream.py    the client's connection: raw reply bytes, honest ends
headers.py       which headers go on, towards engines and towards peers
"""
