"""The ports that carry requests, and the way a reply takes back.

::

    client_port        the engine's well-known port, loopback, plain HTTP
      |- gate          Host and Origin: no web page and no rebound name gets in
      |- cors          what web pages are told: Ollama's rules
      |- catalogue     what the port's engine lists, followed by what only peers have
      |- show          what a model is, told by whoever has it
      |- absent        what is answered for an engine that is not there
      |- unloading     unloading a model also where this node's requests made peers load it
      `- tunnel        a WebSocket: raw bytes between a client and the engine of its port
    peer_port          mutual TLS: inference for this node's engines, what they list, state documents
    key_port           TLS and a key: the client port for containers, and for machines without pairproxy
      `- key_gate      the one place where a key is looked for, compared and taken out of a request
    all of them
      |- listening     binding ports, and saying who has one that is taken
      |- server        a listening port; who may come in, and how it ends
      |- connection    one of its connections: a request at a time, each answered by a task of its own
      |- flow          whether the other side of one takes what is written to it
      |- leaving       whether a client that ended its side waits, or left
      |- inflow        what comes on it, cut into heads and bodies
      |- head          a head, read by one strict grammar
      |- said          what its headers say to a port
      |- content       a body as it comes
      |- request       what handlers are given
      |- faults        what is said where a request cannot be answered at all
      |- room          who has a place, and who gives way
      |- form          what has to be true of a request before anybody looks at its content
      |- lines         an answer that tells step by step how something goes
      `- body          reading a request's body within its limits
    forward            one attempt: request out, reply back, chunk by chunk, unchanged
      |- headers       which headers go on, towards engines and towards peers
      |- downstream    the client's connection: raw reply bytes, honest ends
      |- watching      whether a reply still goes on, and whether its end is one
      `- continuing    a reply that goes on at another node
    draining           how all of that stops
"""
