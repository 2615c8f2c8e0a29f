"""Memory after large bodies is given back."""

import json
import socket

from doors_case import DoorCase, resident_bytes
from support import main

CHAT = "/v1/chat/completions"


class LargeBodies(DoorCase):
    def test_refused_chats_of_60_mb_leave_little(self):
        server = self.server()
        before = resident_bytes(server)
        body = json.dumps({"messages": [{"role": "user", "content": "word " * 12_000_000}]}).encode()
        head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (CHAT.encode(), len(body))
        for _ in range(8):
            links = [socket.create_connection(("127.0.0.1", server.port), 300) for _ in range(3)]
            for link in links:
                link.sendall(head + body)
            for link in links:
                self.assertIn(b" 400 Bad Request", link.recv(100))
                link.close()
        self.assertLess(resident_bytes(server) - before, 200 << 20)


if __name__ == "__main__":
    main()
