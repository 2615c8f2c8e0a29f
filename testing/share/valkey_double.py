"""A server that answers in Valkey's protocol with whatever it is told to, for tests of what a hostile one can do.

    valkey_double.py --port-file FILE [--silent] ANSWER [ENDLESS]

It answers the first command of a connection with +PONG, and any other with ANSWER and then, if given, ENDLESS, again and
again for as long as the client listens. Both are written as in a literal of Python: backslashes begin escapes. With --silent
it reads, and says nothing at all.
"""

import argparse
import os
import socket
import threading


def serve(connection, silent, answer, endless):
    with connection:
        try:
            while silent and connection.recv(1 << 16):
                pass
            connection.recv(1 << 16)
            connection.sendall(b"+PONG\r\n")
            while connection.recv(1 << 16):
                connection.sendall(answer)
                while endless:
                    connection.sendall(endless)
        except OSError:
            pass  # The client had enough.


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port-file", required=True)
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("answer")
    parser.add_argument("endless", nargs="?", default="")
    arguments = parser.parse_args()
    answer, endless = (text.encode().decode("unicode_escape").encode("latin-1") for text in (arguments.answer, arguments.endless))
    endless *= (1 << 16) // max(len(endless), 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with open(arguments.port_file + ".new", "w") as file:
            file.write(str(listener.getsockname()[1]))
        os.rename(arguments.port_file + ".new", arguments.port_file)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection, arguments.silent, answer, endless), daemon=True).start()


if __name__ == "__main__":
    main()
