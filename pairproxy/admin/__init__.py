"""The admin port: this node's own JSON, on loopback, apart from the engines' ports."""
