"""A mail server for the tests: takes encrypted mail from one known user.

Every message is kept as a file. One line, "ready", is printed once the port file is written;
nothing secret is. The server ends when its standard input is closed, so that it never outlives
the test that started it.
"""

import argparse
import asyncio
import logging
import os
import ssl
import sys
import warnings

from aiosmtpd.smtp import SMTP, AuthResult


class Keeper:
    """Writes each message whole before it is acknowledged."""

    def __init__(self, folder):
        self.folder = folder
        self.count = 0

    async def handle_DATA(self, server, session, envelope):
        self.count += 1
        path = os.path.join(self.folder, f"{self.count:04}.eml")
        with open(path + ".part", "wb") as file:
            file.write(envelope.content)
        os.rename(path + ".part", path)
        return "250 taken"


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("port-file", "cert", "key", "user", "password", "folder"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--implicit-tls", action="store_true")
    return parser.parse_args()


async def serve(arguments):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(arguments.cert, arguments.key)

    def authenticate(server, session, envelope, mechanism, data):
        known = (arguments.user.encode(), arguments.password.encode())
        # Not handled: the server itself is to answer a wrong password.
        return AuthResult(success=(data.login, data.password) == known, handled=False)

    keeper = Keeper(arguments.folder)

    def protocol():
        return SMTP(
            keeper,
            hostname="localhost",
            tls_context=None if arguments.implicit_tls else tls,
            require_starttls=not arguments.implicit_tls,
            auth_required=True,
            # The protocol counts TLS that came before it as none.
            auth_require_tls=not arguments.implicit_tls,
            authenticator=authenticate,
        )

    loop = asyncio.get_running_loop()
    first = tls if arguments.implicit_tls else None
    server = await loop.create_server(protocol, "127.0.0.1", 0, ssl=first)
    with open(arguments.port_file, "w", encoding="ascii") as file:
        file.write(str(server.sockets[0].getsockname()[1]))
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    server.close()


# Refused handshakes and logins are what the tests are about, and so is a server that does not know
# of its TLS; traces and warnings about them would read like failures.
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")
asyncio.run(serve(read_arguments()))
