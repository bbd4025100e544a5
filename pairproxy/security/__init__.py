"""Who we are and whom we believe.

::

    identity           this node's key, certificate and device id
      |- certificates  the one profile: how a certificate is made and checked
      `- private_files 0600 from birth, whole or not at all
    trust              the paired peers, believed by their exact certificates
      |- peer_record   what is known of one, and what it may have here
      |- known_profiles which certificates need not be checked again
      `- forgotten     those that were peers: never believed, and told so
    tls                contexts for mutual TLS 1.3 between peers
    pairing            codes and tokens, the exchange of keys, the ciphers (peers.pairing runs it)
      `- pairing_cards what each side shows the other, and how it is judged
    client_keys        keys of programs beyond loopback (proxy.key_port), kept as hashes
    client_authority   the certificate that they see, and the small authority that signs it
    client_tls         the context of their port
"""
