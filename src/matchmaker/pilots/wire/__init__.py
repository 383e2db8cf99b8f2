"""The protocol between pilots, clients and the binder: frames, tokens, greeting, connections.

``docs/pilot-protocol.md`` describes it. Only attrs and the standard library are needed here, since
pilots run on worker nodes.
"""
