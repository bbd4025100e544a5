"""A model copied from one node's Ollama to another's, over the pinned connection.

::

    holder: its files          peer port         receiver
    files (manifest, part)  <-- pinned TLS --  source  <-- registry (loopback) <-- its Ollama: /api/pull

The receiver's own Ollama does the copying: it is told to pull from a registry on loopback that lives as long
as one copy and has one model only. So Ollama keeps half of a blob for the next try, checks the hashes, and
writes the manifest last; until then there is no model. It comes under a name of its own (names) and
gets its real one at the end, when that is still free.

manifest: what a model consists of, checked    names: where it lies, what it is called meanwhile
files, holding: the holder's side              source: the holder as the receiver sees it
registry, ollama, room, copying: the receiver's side
relaying: the holder's daemon, which asks      node: what the daemon has of all this
"""
