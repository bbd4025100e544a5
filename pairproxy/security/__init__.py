"""Who we are and whom we believe.

::

    identity      this node's key, certificate and device id
      |- certificates   the one profile: how it is made and checked
      `- private_files  0600 from birth, whole or not at all
    trust         the paired peers, believed by their exact certificates
    tls           contexts for mutual TLS 1.3 between them
"""
