import socket
from typing import NoReturn

def serve(listener: socket.socket) -> NoReturn: ...
