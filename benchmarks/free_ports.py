"""TCP ports of this machine for the hosts of a cluster file."""
import socket
from typing import List


def free_ports(count: int) -> List[int]:
    """Free at this moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
